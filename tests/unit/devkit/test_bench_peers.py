"""The output of the peers' scripts, and scripts that fail."""

from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.bench.peers import graphjet_figures, ingested, output

GRAPHJET = """ingest: 100000 edges, wall 0.30 s = 333333/s; cpu 0.28 s = 351261/cpu-s; 1 segments
salsa: 10 users, 1000 walks x 99: p50 180.0 ms, p99 200.0 ms; 5/s; cpu of the thread: mean 171.2, p50 169.0, p99 190 ms
"""


def test_the_ingest_is_in_the_line_of_json() -> None:
    printed = 'warning: x\n{"events_s": 4, "events_per_app_cpu_s": 2, "second_half_events_per_app_cpu_s": 3}\n'
    found = ingested(printed)
    assert (found.whole, found.warm, found.per_second) == (2, 3, "4")


def test_edges_and_requests_are_counted_by_cpu_time() -> None:
    assert graphjet_figures(GRAPHJET) == (351_261, 169.0)


def test_output_without_figures_is_an_error_with_the_last_lines() -> None:
    with pytest.raises(DevkitError, match="OutOfMemoryError"):
        graphjet_figures("ingest: began\njava.lang.OutOfMemoryError\n")


def test_a_failed_script_is_an_error_with_its_last_lines(tmp_path: Path) -> None:
    script = tmp_path / "build.sh"
    script.write_text("#!/bin/sh\necho 'no jars in' $PEERS_CACHE >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(DevkitError, match=r"build\.sh failed(.|\n)*no jars in .*/peers/jars"):
        output([str(script)])
