"""The keys of a profile's rankings, from their counts. Shares no code with the store."""

from collections.abc import Mapping
from hashlib import sha1
from typing import Any

from streamstate.verify.recount import Stored

_SMALL, _BEST, _BUCKET = 128, 64, 100


def member_of(value: Any) -> str:
    """A value as a member of a ranking: numbers in an order of texts."""
    if isinstance(value, str):
        return value
    digits = str(abs(int(value)))
    if value >= 0:
        return "abcdefghijklmnopqrs"[len(digits) - 1] + digits
    return "-" + "yxwvutsrqponmlkjihg"[len(digits) - 1] + "".join(str(9 - int(digit)) for digit in digits)


def stored(numbers: Mapping[str, int], family: str, name: str, *, compact: bool) -> dict[str, Stored]:
    """The values of the keys that hold a ranking, by the keys, which begin with `family` and end with `name`."""
    ranked = sorted((-number, member.encode()) for member, number in numbers.items())
    scores = {member: float(score) for score, member in ranked}
    if not compact or len(ranked) <= _SMALL:
        return {f"{family}{name}": scores} if scores else {}
    buckets: list[dict[bytes, bytes]] = [{} for _ in range(-(-len(ranked) // _BUCKET))]
    for score, member in ranked:
        buckets[_bucket(member, len(buckets))][member] = b"%d" % -score
    best = dict(list(scores.items())[:_BEST]) | {b"\xff": float(len(ranked))}
    return {f"{family}{name}": best, **{f"{family}.{n}{name}": held for n, held in enumerate(buckets) if held}}


def _bucket(member: bytes, buckets: int) -> int:
    """The number in the last bits of the hash, as many of them as there is a bucket for."""
    number = int(sha1(member, usedforsecurity=False).hexdigest()[:7], 16)
    size = 1 << (buckets - 1).bit_length()
    return number % size if number % size < buckets else number % (size // 2)
