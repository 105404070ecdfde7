"""The peers' scripts: what they print, and what happens when one fails."""

from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.bench.peers import Scripts, ingested, parse


def test_the_figures_are_the_lines_of_json() -> None:
    printed = 'warning: x\n{"events_s": 4, "events_per_app_cpu_s": 2, "second_half_events_per_app_cpu_s": 3}\n'
    (line,) = parse(printed)
    found = ingested(line)
    assert (found.whole, found.warm, found.per_second) == (2, 3, 4)


def test_a_script_that_fails_is_told_with_its_last_lines(tmp_path: Path) -> None:
    script = tmp_path / "streams" / "build.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho 'no jars in' $PEERS_CACHE >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(DevkitError, match=r"build\.sh failed(.|\n)*no jars in /cache/jars"):
        Scripts(tmp_path, Path("/cache"), tmp_path).build()
