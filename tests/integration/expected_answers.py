"""The answers of the gateway, made from the recount that `make verify` holds the state against."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Message, murmur2

from services import reference_decoding
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
    users: defaultdict[int, list[dict[str, int]]] = defaultdict(list)
    for message in messages:
        event = reference_decoding.listening_event(message)
        if event and murmur2(message.key() or b"", PARTITIONS) == message.partition():
            users[event["userId"]].append(event)
    return {number: _profile(number, events, known) for number, events in users.items() if number != erased.USER}


def _profile(number: int, events: list[dict[str, int]], known: dict[str, dict[int, str]]) -> dict[str, Any]:
    times = [event["timestamp"] for event in events]
    profile: dict[str, Any] = {
        "userId": number,
        "eventCount": len(events),
        "firstListeningEvent": _instant(min(times)),
        "lastListeningEvent": _instant(max(times)),
    }
    for kind, field in reference_decoding.FIELDS.items():
        profile[f"topTen{kind.capitalize()}"] = _top_ten(Counter(event[field] for event in events), known[kind])
    return profile


def _top_ten(plays: Counter[int], known: dict[int, str]) -> list[dict[str, Any]]:
    top = sorted(plays.items(), key=lambda item: (-item[1], item[0]))[:10]
    return [{"id": item, "name": known.get(item), "countPlays": count} for item, count in top]


def _instant(ms: int) -> str:
    whole = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{ms % 1000:03d}Z" if ms % 1000 else f"{whole}Z"
