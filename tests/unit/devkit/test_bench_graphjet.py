"""What is read from the output of GraphJet's harness."""

import pytest

from devkit import DevkitError
from devkit.bench.graphjet import GraphJet, parse

OUTPUT = """ingest: 100000 edges, wall 0.30 s = 333333/s; cpu 0.28 s = 351261/cpu-s; 1 segments
salsa: 10 users, 1000 walks x 99: p50 180.0 ms, p99 200.0 ms; 5/s; cpu of the thread: mean 171.2, p50 169.0, p99 190 ms
"""


def test_edges_and_requests_are_those_by_cpu_time() -> None:
    assert parse(OUTPUT, "") == GraphJet(edges=351_261, request_ms=169.0)


def test_a_failure_is_told_with_the_last_lines() -> None:
    with pytest.raises(DevkitError, match="OutOfMemoryError"):
        parse("ingest: began\n", "java.lang.OutOfMemoryError\n")
