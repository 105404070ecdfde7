"""What `verify` finds: a place, and its fault."""

from collections.abc import Mapping
from dataclasses import dataclass

_SHOWN = 200
"""Characters of each side of a difference."""


@dataclass(frozen=True)
class Difference:
    """A place (a Redis key, or topic:partition:offset of a record), and its fault."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def unequal(expected: object, stored: object) -> str | None:
    """The reason of a `Difference`, of limited length: for collections, the differing members. None when equal."""
    if expected == stored:
        return None
    expected, stored = _differing(expected, stored)
    texts = str(expected), str(stored)
    same = next((n for n, (left, right) in enumerate(zip(*texts, strict=False)) if left != right), min(map(len, texts)))
    begin = max(0, same - _SHOWN // 2)
    return f"expected {_piece(texts[0], begin)}, found {_piece(texts[1], begin)}"


def _differing(expected: object, stored: object) -> tuple[object, object]:
    """The members of two maps, or of two lists by index, without the common members; other values unchanged."""
    if isinstance(expected, list) and isinstance(stored, list):
        expected, stored = dict(enumerate(expected)), dict(enumerate(stored))
    if not (isinstance(expected, Mapping) and isinstance(stored, Mapping)):
        return expected, stored
    missing = object()
    return (
        {name: value for name, value in expected.items() if stored.get(name, missing) != value},
        {name: value for name, value in stored.items() if expected.get(name, missing) != value},
    )


def _piece(text: str, begin: int) -> str:
    return f"{'…' if begin else ''}{text[begin : begin + _SHOWN]}{'…' if begin + _SHOWN < len(text) else ''}"
