"""The answers of the gateway, made from the recount that `make verify` holds the state against."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Message, murmur2

from services import reference_decoding
from services.metrics.recount import Profiles, User
from tests.integration import erased

PARTITIONS = 8


def names(messages: Iterable[Message]) -> dict[int, str]:
    """The table that the records of a topic of names make."""
    table: dict[int, str] = {}
    for message in messages:
        key = reference_decoding.long_key(message) or 0
        document = reference_decoding.document(message.value())
        if document is None:
            table.pop(key, None)
        else:
            table[key] = document["name"]
    return table


def profiles(messages: Iterable[Message], known: dict[str, dict[int, str]]) -> dict[int, dict[str, Any]]:
    """What `/v1/users/{id}` should say, by user; an event that lies elsewhere than its key belongs is left out.

    `known` are the names by kind.
    """
    recount = Profiles()
    for message in messages:
        if murmur2(message.key() or b"", PARTITIONS) == message.partition():
            recount.add(message, 0)
    return {number: _profile(number, user, known) for number, user in recount.users.items() if number != erased.USER}


def _profile(number: int, user: User, known: dict[str, dict[int, str]]) -> dict[str, Any]:
    profile: dict[str, Any] = {
        "userId": number,
        "eventCount": user.count,
        "firstListeningEvent": _instant(user.first),
        "lastListeningEvent": _instant(user.last),
    }
    return profile | {f"topTen{kind.capitalize()}": _top_ten(plays, known[kind]) for kind, plays in user.plays.items()}


def _top_ten(plays: Counter[int], known: dict[int, str]) -> list[dict[str, Any]]:
    top = sorted(plays.items(), key=lambda item: (-item[1], item[0]))[:10]
    return [{"id": item, "name": known.get(item), "countPlays": count} for item, count in top]


def _instant(ms: int) -> str:
    whole = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{ms % 1000:03d}Z" if ms % 1000 else f"{whole}Z"
