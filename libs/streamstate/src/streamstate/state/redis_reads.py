"""How a partition is read from Redis: one call of a server-side script, whoever makes it."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from importlib import resources
from operator import neg, pos
from typing import Any, assert_never

import msgspec

from streamstate.errors import IncompleteCommit
from streamstate.state.reads import Between, Field, Fields, Newest, Read, Since, Top, Value
from streamstate.state.store import Origin, Snapshot

pack = msgspec.msgpack.encode


class Script:
    """A server-side script, and the name that Redis has for it."""

    def __init__(self, name: str) -> None:
        self.text = resources.files("streamstate.state").joinpath("lua", name).read_text()
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


READ = Script("read.lua")


def tag(app: str, partition: int) -> str:
    """The hash tag of a partition: the key of its hash, with which all its other keys begin."""
    return f"{{{app}:{partition}}}"


def script_keys(app: str, partition: int) -> tuple[int, str, str]:
    """The keys that a script of a partition declares, after their number.

    The second one never exists. While a slot migrates, a node of a Redis Cluster serves what keys it has of a script
    that declares one key, and takes the others for keys that were never written. Two keys, one of which is missing, it
    answers with TRYAGAIN.
    """
    hash_tag = tag(app, partition)
    return 2, hash_tag, f"{hash_tag}-missing"


# Without a line of Python for each pair: a profile has thirty.
def _pairs(flat: Sequence[bytes], sign: Callable[[float], float] = pos) -> list[tuple[str, int]]:
    return list(zip(map(bytes.decode, flat[::2]), map(int, map(sign, map(float, flat[1::2]))), strict=True))


def snapshot(hash_tag: str, reads: Sequence[Read], answer: Sequence[Any]) -> Snapshot:
    """What the script `READ` answered to `reads`. Raises `IncompleteCommit` for a partition that has a part of one."""
    held = answer[0]
    groups: dict[str, dict[str, Any]] = {"offset": {}, "time": {}, "target": {}, "count": {}, "origin": {}, "": {}}
    for raw, found in zip(held[::2], held[1::2], strict=True):
        group, name = _field(raw)
        if group not in groups:
            # For the scripts, or of a later release: this one keeps it, and does not know what it says.
            continue
        groups[group][name] = _origin(found) if group == "origin" else found if group == "" else int(found)
    values = [_value(read, found) for read, found in zip(reads, answer[1:], strict=True)]
    own = groups[""]
    if "incomplete" in own:
        raise IncompleteCommit(hash_tag)
    return Snapshot(
        own["owner"].decode() if "owner" in own else None,
        int(own.get("epoch", 0)),
        groups["offset"],
        groups["time"],
        groups["target"],
        groups["count"],
        groups["origin"],
        values,
    )


# A partition has the same few fields and origins at each read.
@functools.lru_cache(4_096)
def _field(raw: bytes) -> tuple[str, str]:
    """The group of a field of a partition's hash (empty: it has none), and its name there."""
    group, colon, name = raw.decode().partition(":")
    return (group, name) if colon else ("", group)


@functools.lru_cache(4_096)
def _origin(found: bytes) -> Origin:
    topic_id, _, partitions = found.decode().rpartition("/")
    return Origin(topic_id, int(partitions))


def _value(read: Read, found: Any) -> Any:
    match read:
        case Value():
            return None if found is None else found.decode()
        case Fields():
            return dict(_pairs(found))
        case Field():
            return None if found is None else int(found)
        case Top():
            return _pairs(found, neg)
        case Newest() | Between():
            return _pairs(found)
        case Since():
            return [(int(number.partition(b"-")[0]), text) for number, (_name, text) in found]
        case _:
            assert_never(read)
