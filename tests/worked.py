"""Worked examples, their answers counted by hand."""

Line = tuple[int, str, str, str | None]
"""Milliseconds, topic, key, value."""

_R, _C = "user-regions", "user-clicks"

# Amy moves from asia to europe at 20, Bob clicks before his first region, Zoe has none, Ivy's is taken away at 30.
CLICKS: list[Line] = [
    *((1, _R, user, "asia") for user in ("amy", "cat", "dan")),
    *((1, _R, user, "europe") for user in ("eve", "fay", "gus")),
    *((1, _R, user, "americas") for user in ("hal", "ivy", "jim", "kim")),
    *((10, _C, user, "1") for user in ("amy", "cat", "dan", "eve", "fay", "gus", "hal", "ivy", "jim", "kim")),
    (11, _C, "bob", "100"),
    (12, _C, "zoe", "7"),
    (20, _R, "amy", "europe"),
    (20, _C, "amy", "30"),
    (21, _R, "bob", "asia"),
    (22, _C, "bob", "5"),
    (25, _C, "kim", "0"),
    (30, _R, "ivy", None),
    (31, _C, "ivy", "40"),
]
TOTALS = {"americas": 1 + 1 + 1 + 1, "asia": 1 + 1 + 1 + 5, "europe": 1 + 1 + 1 + 30, "UNKNOWN": 100 + 7 + 40}
