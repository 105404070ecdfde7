"""The answers of a store in memory to reads."""

from collections.abc import Mapping
from typing import Any, assert_never

from streamstate.state.memory import timelines
from streamstate.state.operations import (
    Between,
    Field,
    Fields,
    HistoryDays,
    Members,
    Newest,
    Read,
    Since,
    Size,
    Top,
    Value,
)


def answer(keys: Mapping[str, Any], read: Read) -> Any:
    match read:
        case Value(key):
            return keys.get(key)
        case Fields(key):
            return dict(keys.get(key, {}))
        case Field(key, name):
            return keys.get(key, {}).get(name)
        case Size(key):
            return len(_scores(keys, key, read.within))
        case HistoryDays():
            return timelines.history(keys, read)
        case _:
            return _part(keys, read)


def _part(keys: Mapping[str, Any], read: Top | Newest | Members | Since | Between) -> Any:
    match read:
        case Top(key, n, within=within):
            return _best(_scores(keys, key, within), n)
        case Newest(key, n):
            return sorted(keys.get(key, {}).items(), key=timelines.by_time, reverse=True)[:n]
        case Members(key, start, end, n, descending):
            index = keys.get(key, ())
            members = (member for member in index if start <= member and (not end or member < end))
            return sorted(members, key=str.encode, reverse=descending)[:n]
        case Since(key, after, n):
            entries = keys.get(key, timelines.Log()).entries
            return [(number, text) for number, text in entries.items() if number > after][:n]
        case Between():
            return timelines.between(keys, read)
        case _:
            assert_never(read)


def _scores(keys: Mapping[str, Any], key: str, within: tuple[int, int] | None) -> dict[str, int]:
    scores: dict[str, int] = keys.get(key, {})
    return {name: n for name, n in scores.items() if within[0] <= n <= within[1]} if within else scores


def _best(scores: dict[str, int], n: int) -> list[tuple[str, int]]:
    """The `n` members with the greatest scores; ties by text, which is the order of bytes, too.

    Only the members from the last score on are sorted: a replay asks for the best of thousands again and again.
    """
    last = min(sorted(scores.values(), reverse=True)[:n], default=0)
    ordered = sorted(member for member, score in scores.items() if score >= last)
    ordered.sort(key=scores.__getitem__, reverse=True)
    return [(member, scores[member]) for member in ordered[:n]]
