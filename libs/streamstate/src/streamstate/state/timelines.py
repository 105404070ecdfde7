"""The timelines of a store in memory, and the families with an expiry time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from streamstate.state.operations import DeleteTimeline, ExpireBefore, Insert, Remove


@dataclass
class Family:
    """The keys of its timelines, and the time before which their entries are expired."""

    timelines: set[str] = field(default_factory=set)
    expired: float = -math.inf


def apply(keys: dict[str, Any], operation: Insert | Remove | DeleteTimeline | ExpireBefore) -> None:
    """Apply `operation` to the keys of a partition."""
    kept: Family = keys.setdefault(operation.family, Family())
    match operation:
        case Insert(family, name, entries, instead):
            key = f"{family}:{name}"
            kept.timelines.add(key)
            gone = set(entries.values()) if instead else set()
            keys[key] = {text: at for text, at in keys.get(key, {}).items() if at not in gone} | entries
        case Remove(family, name, text):
            keys.get(f"{family}:{name}", {}).pop(text, None)
        case DeleteTimeline(family, name):
            kept.timelines.discard(f"{family}:{name}")
            keys.pop(f"{family}:{name}", None)
        case ExpireBefore(_, before):
            kept.expired = max(kept.expired, before)
            for key in kept.timelines:
                keys[key] = {text: at for text, at in keys.get(key, {}).items() if at >= before}


def expired(keys: dict[str, Any], timeline: str) -> Iterator[float]:
    """The expiry time of each family that `timeline` may belong to."""
    names = timeline.split(":")
    for count in range(len(names)):
        family = keys.get(":".join(names[:count]))
        yield family.expired if isinstance(family, Family) else -math.inf
