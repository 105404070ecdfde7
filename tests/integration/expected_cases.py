"""The right answers of clicks, notifications and topics, counted from the topics by the simplest code there is."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Message

HOUR_MS, MINUTE_MS = 3_600_000, 60_000


def text(message: Message) -> tuple[str, str | None]:
    """Key and value."""
    key, value = message.key(), message.value()
    return (key or b"").decode(), None if value is None else value.decode()


def in_order(*topics: Iterable[Message]) -> list[Message]:
    """The records of all by the greatest timestamp so far of their topic's partition; ties in the order of topics."""
    placed = []
    for rank, messages in enumerate(topics):
        greatest: Counter[int] = Counter()
        for message in messages:
            partition = message.partition() or 0
            greatest[partition] = max(greatest[partition], message.timestamp()[1])
            placed.append((greatest[partition], rank, message))
    return [message for *_, message in sorted(placed, key=lambda entry: entry[:2])]


def clicks(regions: Sequence[Message], clicked: Sequence[Message]) -> dict[str, int]:
    """Clicks by region."""
    of: dict[str, str | None] = {}
    totals: Counter[str] = Counter()
    for message in in_order(regions, clicked):
        user, value = text(message)
        if message.topic() == "user-regions":
            of[user] = value
        else:
            totals[of.get(user) or "UNKNOWN"] += int(value or 0)
    return dict(totals)


class Sent(NamedTuple):
    """A message: its user, cause and time, and the greatest time of any record before it in the partition."""

    user: str
    cause: str
    time: int
    now: int


def notifications(opened: Sequence[Message], ticks: Sequence[Message]) -> list[Sent]:
    """All messages."""
    state: dict[str, str | None] = {}
    now: Counter[int] = Counter()
    sent = []
    for message in in_order(opened, ticks):
        user, value = text(message)
        time, partition = message.timestamp()[1], message.partition() or 0
        now[partition] = max(now[partition], time)
        if message.topic() == "open":
            state[user] = value
        if state.get(user) in ("Close", "Closed"):
            sent.append(Sent(user, f"{message.topic()}:{message.offset()}", time, now[partition]))
    return sent


def hopping(sent: Iterable[Sent]) -> dict[str, dict[int, int]]:
    """Messages of each user in windows of ten minutes every minute, by start, without those that came too late."""
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for message in sent:
        latest = message.time // MINUTE_MS
        starts = [minute * MINUTE_MS for minute in range(max(0, latest - 9), latest + 1)]
        counts[message.user].update(start for start in starts if start + 10 * MINUTE_MS > message.now)
    return {user: dict(of) for user, of in counts.items() if of}


def bookings(messages: Iterable[Message]) -> dict[int, list[dict[str, Any]]]:
    """The history of each customer."""
    histories: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for message in messages:
        value = json.loads(message.value() or b"null")
        record = {"value": value, "offset": message.offset(), "timestamp": message.timestamp()[1]}
        histories[int.from_bytes(message.key() or b"", "big")].append(record)
    return {key: sorted(rows, key=lambda row: (row["timestamp"], row["offset"])) for key, rows in histories.items()}


def hourly(history: Iterable[dict[str, Any]]) -> list[dict[str, int]]:
    """The amounts of a customer, hour by hour."""
    amounts: defaultdict[int, list[int]] = defaultdict(list)
    for record in history:
        amounts[record["timestamp"] // HOUR_MS * HOUR_MS].append(record["value"]["amount"])
    return [
        {"start": at, "end": at + HOUR_MS, "count": len(of), "min": min(of), "max": max(of), "sum": sum(of)}
        for at, of in sorted(amounts.items())
    ]
