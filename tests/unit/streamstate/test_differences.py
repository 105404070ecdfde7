"""A difference that `streamstate verify` tells shows the members that differ, however long the value is."""

from typing import Any

import pytest

from streamstate.verify.recount import unequal

MANY = {f"artist {n}".encode(): float(n) for n in range(1_000)}
PLAYS = [(n, {b"track": b"%d" % n}) for n in range(1_000)]


@pytest.mark.parametrize(
    ("expected", "stored", "reason"),
    [
        (MANY, MANY | {b"artist 900": 7.0}, "expected {b'artist 900': 900.0}, found {b'artist 900': 7.0}"),
        (MANY, MANY | {b"another": 1.0}, "expected {}, found {b'another': 1.0}"),
        (PLAYS, PLAYS[:-1], "expected {999: (999, {b'track': b'999'})}, found {}"),
        (None, b"12", "expected None, found b'12'"),
        ("a" * 1_000 + "b", "a" * 1_000 + "c", f"expected …{'a' * 100}b, found …{'a' * 100}c"),
        (b"", b"x" * 1_000, f"expected b'', found b'{'x' * 198}…"),
    ],
)
def test_what_differs_is_shown(expected: Any, stored: Any, reason: str) -> None:
    assert unequal(expected, stored) == reason


def test_what_is_equal_is_no_difference() -> None:
    assert unequal(MANY, dict(MANY)) is None
