"""What the demo prints of a profile."""

from typing import Any

from devkit.demo import WIDTH, cut, in_short


def things(count: int, **members: Any) -> list[dict[str, Any]]:
    return [{"id": number, "name": None if number == 2 else f"Name {number}", **members} for number in range(1, count)]


PROFILE = {
    "eventCount": 812,
    "firstListeningEvent": "2026-10-24T01:02:03Z",
    "lastListeningEvent": "2026-11-23T01:02:03.004Z",
    **{f"topTen{kind}s": things(11, countPlays=7) for kind in ("Artist", "Album", "Track")},
    **{f"{kind}Recommendations": things(3) for kind in ("artist", "album", "track")},
}


def test_a_profile_is_shown_in_a_few_lines() -> None:
    lines = list(in_short(PROFILE))
    assert lines[0] == "812 plays from 2026-10-24 to 2026-11-23"
    assert lines[1].startswith("most played artists: Name 1 (7), number 2 (7), Name 3 (7)")
    assert lines[2] == "may like artists: Name 1, number 2"
    assert len(lines) == 7


def test_a_line_fits_a_terminal() -> None:
    assert cut("x" * WIDTH) == "x" * WIDTH
    assert cut("x" * WIDTH + "y") == "x" * (WIDTH - 1) + "…"
