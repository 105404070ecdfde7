"""The commands of one read transaction of a partition, for any client, and the decoding of their answers."""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from operator import neg, pos
from typing import Any, assert_never

import msgspec
from msgspec import structs
from redis.exceptions import NoScriptError, OutOfMemoryError

from streamstate.errors import IncompleteCommit
from streamstate.state.operations import (
    DAY_MS,
    MOST,
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
from streamstate.state.store import DELETIONS, Allowance, Claim, Origin, Snapshot

pack = msgspec.msgpack.encode


class Script:
    """A server-side script, concatenated from the files `names`, and its SHA-1."""

    def __init__(self, *names: str) -> None:
        folder = resources.files("streamstate.state") / "lua"
        self.text = "".join((folder / name).read_text() for name in names)
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


READ = Script("between.lua", "buckets.lua", "read.lua")

Command = tuple[str | int | bytes, ...]

NO_TRANSACTION = (NoScriptError, OutOfMemoryError)
"""Redis' refusals of a transaction run as one script: `READ` is not loaded, or the memory is full."""


def tag(app: str, partition: int) -> str:
    """The hash tag of a partition: the key of its hash, and the prefix of all its other keys."""
    return f"{{{app}:{partition}}}"


def trouble_key(app: str, instance: str) -> str:
    """The key of a stream's trouble, by the name of its status or its API's address; in no partition."""
    return f"{{{app}:instances}}:{instance}"


def live_key(app: str) -> str:
    """The key of the releases of the service whose first release is `app`; in no partition."""
    return f"{{{app}:live}}"


DEPLOYMENTS = "streamstate:deployments"
"""The key of the names of all deployments."""


def deployment_key(app: str) -> str:
    """The key of the deployment's service and settings; in no partition."""
    return f"{{{app}:deployment}}"


def lock_key(service: str) -> str:
    """The key of the lock of a service's commands, by the name of its first release; in no partition."""
    return f"{{{service}:lock}}"


def script_keys(hash_tag: str) -> tuple[int, str, str]:
    """The declared keys of a partition's script, after their number.

    The second key never exists. While a slot migrates, a node of a Redis Cluster runs a script with one declared key on
    the node's part of the keys, as if the other keys had never been written. For two keys, one of them missing, it
    answers TRYAGAIN.
    """
    return 2, hash_tag, f"{hash_tag}-missing"


def read_commands(hash_tag: str, reads: Sequence[Read]) -> list[Command]:
    """The commands that read a partition: its hash, then `reads`. To be run as one transaction."""
    return [("HGETALL", hash_tag), *[_command(hash_tag, read) for read in reads]]


def as_script(hash_tag: str, reads: Sequence[Read]) -> Command:
    """One command with the same answers, at twice the cost for Redis; needs `READ` loaded."""
    return "EVAL", READ.text, *script_keys(hash_tag), pack(read_commands(hash_tag, reads))


def _command(hash_tag: str, read: Read) -> Command:
    key = f"{hash_tag}:{read.key}"
    match read:
        case Top() | Size():
            return _of_ranking(hash_tag, read)
        case Value() | Fields() | HistoryDays():
            return _OF_KEY[type(read)], key
        case Field():
            return "HGET", key, read.field
        case Newest():
            return "ZRANGE", key, *_ranks(read.n), "REV", "WITHSCORES"
        case Members():
            start, end = f"[{read.start}", f"({read.end}" if read.end else "+"
            places = (end, start, "BYLEX", "REV") if read.descending else (start, end, "BYLEX")
            return "ZRANGE", key, *places, "LIMIT", 0, max(read.n, 0)
        case Since():
            return "XRANGE", key, f"({read.after}", "+", "COUNT", max(read.n, 0)
        case Between():
            span = read.start, read.end, read.n, read.skip, read.most_bytes, int(read.descending)
            return "EVALSHA", READ.sha, *script_keys(hash_tag), read.key, *span
        case _:
            assert_never(read)


def _of_ranking(hash_tag: str, read: Top | Size) -> Command:
    key = f"{hash_tag}:{read.key}"
    match read:
        case Size(within=(least, most)):
            # Scores are stored negated.
            return "ZCOUNT", key, -most, -least
        case Top(within=(least, most)):
            return "ZRANGE", key, -most, -least, "BYSCORE", "LIMIT", 0, max(read.n, 0), "WITHSCORES"
        case Size(compact=True):
            return "ZRANGE", key, 0, -1, "WITHSCORES"
        case Size():
            return "ZCARD", key
        case Top(compact=True):
            return "EVALSHA", READ.sha, *script_keys(hash_tag), read.key, read.n
        case _:
            return "ZRANGE", key, *_ranks(read.n), "WITHSCORES"


_OF_KEY: Mapping[type[Read], str] = {Value: "GET", Fields: "HGETALL", HistoryDays: "HGETALL"}
"""The commands with the key as the only argument."""


def _ranks(n: int) -> tuple[int, int]:
    """The ranks of the first `n`; a rank of -1 would be the last of all."""
    return (0, n - 1) if n > 0 else (1, 0)


# Without a line of Python for each pair: a profile has thirty. Redis writes whole numbers up to 10^17 without exponent.
def _pairs(flat: Sequence[bytes], sign: Callable[[int], int] = pos) -> list[tuple[str, int]]:
    return list(zip(map(bytes.decode, flat[::2]), map(sign, map(int, flat[1::2])), strict=True))


def decode_snapshot(hash_tag: str, reads: Sequence[Read], answer: Sequence[Any], *, whole: bool = True) -> Snapshot:
    """The snapshot from the answers to the commands of `reads`.

    Raises `IncompleteCommit` after a partial commit, unless the snapshot need not be `whole`.
    """
    held = _without_values(hash_tag, whole, *answer[0])
    values = [_value(read, value, held.expired) for read, value in zip(reads, answer[1:], strict=True)]
    return structs.replace(held, values=values, size=sum(map(_bytes, answer[1:])))


def _bytes(answer: Any) -> int:
    """The bytes of an answer of Redis, without its framing; numbers and missing values count nothing."""
    if isinstance(answer, list):
        return sum(map(len, answer)) if answer and isinstance(answer[0], bytes) else sum(map(_bytes, answer))
    return len(answer) if isinstance(answer, bytes) else 0


# Between two commits, all reads of a partition get the same hash.
@functools.lru_cache(1_024)
def _without_values(hash_tag: str, whole: bool, *flat: bytes) -> Snapshot:
    fields = _by_group(flat)
    own = fields[""]
    if whole and own.get("begun") != own.get("ended"):
        raise IncompleteCommit(hash_tag)
    return Snapshot(
        owner=own["owner"].decode() if "owner" in own else None,
        epoch=int(own.get("epoch", 0)),
        positions=fields["offset"],
        times=fields["time"],
        targets=fields["target"],
        counters=fields["count"],
        origins=fields["origin"],
        values=(),
        begins=fields["begin"],
        folds=fields["fold"],
        format=int(own["format"]) if "format" in own else None,
        allowances=fields["allow"],
        deletions=fields[DELETIONS].get(""),
        expired=fields["expired"],
        backup=int(own["backup"]) if "backup" in own else None,
        rate=float(own["rate"]) if "rate" in own else None,
        placed=fields["placed"],
        record=int(own.get("record", 0)),
    )


def decode_claim(partition: int, flat: Sequence[bytes]) -> Claim:
    """The claim from the script's answer: the partition's hash, with the server's run id as a field."""
    fields = _by_group(flat)
    own = fields[""]
    skips = {_place(name): reason for name, reason in fields["skip"].items()}
    held = fields["offset"], fields["time"], skips
    return Claim(partition, int(own["epoch"]), own["server"].decode(), *held, fields[DELETIONS].get(""))


def _place(name: str) -> tuple[str, int]:
    topic, _, offset = name.rpartition(":")
    return topic, int(offset)


def _by_group(flat: Sequence[bytes]) -> Mapping[str, Mapping[str, Any]]:
    """The fields of a partition's hash, by the group before the colon (empty: no colon) and the name after it."""
    groups: dict[str, dict[str, Any]] = {group: {} for group in ("", *_DECODED)}
    for raw, value in zip(flat[::2], flat[1::2], strict=True):
        first, colon, rest = raw.decode().partition(":")
        group, name = (first, rest) if colon else ("", first)
        # Other groups belong to the scripts, or to a later release: ignore them.
        if group in groups:
            groups[group][name] = _DECODED[group](value) if group else value
    # The pseudo-topic of deletions is no topic.
    deletions = groups["offset"].pop(DELETIONS, None)
    return {**groups, DELETIONS: {"": deletions}}


def _origin(raw: bytes) -> Origin:
    topic_id, _, partitions = raw.decode().rpartition("/")
    return Origin(topic_id, int(partitions))


def _allowance(raw: bytes) -> Allowance:
    before, _, reason = raw.decode().partition(" ")
    return Allowance(int(before), reason)


_DECODED: Mapping[str, Callable[[bytes], Any]] = {
    "offset": int,
    "time": int,
    "expired": int,
    "target": int,
    "count": int,
    "origin": _origin,
    "begin": int,
    "fold": bytes.decode,
    "skip": bytes.decode,
    "allow": _allowance,
    "placed": bytes.decode,
}
"""How the values of a group of fields are decoded."""


def _value(read: Read, answer: Any, expired: Mapping[str, int]) -> Any:
    match read:
        case Value():
            return None if answer is None else answer.decode()
        case Fields():
            return dict(_pairs(answer))
        case Field():
            return None if answer is None else int(answer)
        case Size():
            return _size(answer) if read.compact else answer
        case HistoryDays():
            return _history(answer, expired.get(read.family, 0))
        case Top():
            pairs = _pairs(answer, abs if read.compact else neg)
            return sorted(pairs, key=_rank)[: read.n] if read.compact else pairs
        case Newest() | Between():
            return _pairs(answer)
        case Members():
            return list(map(bytes.decode, answer))
        case Since():
            return [(int(number.partition(b"-")[0]), text) for number, (_name, text) in answer or ()]
        case _:
            assert_never(read)


def _rank(item: tuple[str, int]) -> tuple[int, bytes]:
    return -item[1], item[0].encode()


def _size(flat: Sequence[bytes]) -> int:
    """A large compact ranking ends with the number of its members, the only positive score."""
    return max(int(flat[-1]), len(flat) // 2) if flat else 0


def _history(flat: Sequence[bytes], expired: int) -> tuple[int, dict[int, str], dict[int, int]]:
    """`n.1` and its followers hold the earlier lines of the day `n`; `n#` is their number, `n+` their bytes.

    The field `n-` is the number of lines that were left out.
    """
    days: dict[int, list[tuple[int, bytes]]] = {}
    left_out: dict[int, int] = {}
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        day, _, piece = name.rstrip(b"#+-").partition(b".")
        if int(day) * DAY_MS < expired:
            continue
        if name.endswith(b"-"):
            left_out[int(day)] = int(value)
        elif not name.endswith((b"#", b"+")):
            days.setdefault(int(day), []).append((int(piece or MOST), value))
    joined = {day: b"".join(lines for _, lines in sorted(pieces)).decode() for day, pieces in days.items()}
    return expired, joined, left_out
