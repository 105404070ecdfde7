"""What a view may read, in the same wire format as operations."""

import msgspec


class Value(msgspec.Struct, frozen=True, array_like=True, tag="value"):
    """The text that `Put` set, or None."""

    key: str


class Fields(msgspec.Struct, frozen=True, array_like=True, tag="fields"):
    """What `Merge` merged: {field: whole number}, empty when there is nothing."""

    key: str


class Field(msgspec.Struct, frozen=True, array_like=True, tag="field"):
    """What `Merge` merged into one field: a whole number, or None."""

    key: str
    field: str


class Top(msgspec.Struct, frozen=True, array_like=True, tag="top"):
    """The first `n` of a ranking: [(member, score)], highest score first, ties by member in byte order."""

    key: str
    n: int


class Newest(msgspec.Struct, frozen=True, array_like=True, tag="newest"):
    """The first `n` of a list: [(member, milliseconds)], newest first, ties by member in descending byte order."""

    key: str
    n: int


class Since(msgspec.Struct, frozen=True, array_like=True, tag="since"):
    """The first `n` entries of a log behind the number `after`: [(number, bytes)], in order."""

    key: str
    after: int
    n: int


class Between(msgspec.Struct, frozen=True, array_like=True, tag="between"):
    """The entries of a timeline from the time `start` to before `end`: [(text, milliseconds)].

    In order of time, ties by text in byte order; at most `n`, without the first `skip`. The last one is the one with
    which their texts reach `most_bytes`.
    """

    key: str
    start: int
    end: int = 2**53
    n: int = 2**31 - 1
    skip: int = 0
    most_bytes: int = 2**53


Read = Value | Fields | Field | Top | Newest | Since | Between
