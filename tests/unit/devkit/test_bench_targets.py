"""When a target is met, and which ones a run can tell of."""

import pytest

from devkit.bench.cpu import Usage
from devkit.bench.event_latency import EventLatency
from devkit.bench.figures import Figures, Paced
from devkit.bench.ingest import Ingest
from devkit.bench.read_load import COMBINED, FEW, OWNER, STREAMS, Measured, Situation
from devkit.bench.targets import Target, targets
from devkit.bench.wrk import LoadResult


def answers(requests: int = 1_000, p99_ms: float = 10, bad: int = 0) -> LoadResult:
    return LoadResult(requests, 10, p99_ms / 2, p99_ms, bad, 0, 0, 0, 0)


def read(name: str, cpu: dict[str, float], p99_ms: float = 10, bad: int = 0) -> Measured:
    return Measured(name, Situation(FEW), answers(p99_ms=p99_ms, bad=bad), Usage(10, cpu, None))


def by_name(figures: Figures) -> dict[str, Target]:
    return {target.what: target for target in targets(figures)}


@pytest.mark.parametrize(
    ("value", "at_least", "met"), [(4, False, True), (4.1, False, False), (4, True, True), (3.9, True, False)]
)
def test_a_target_is_met_at_its_limit(value: float, at_least: bool, met: bool) -> None:
    assert Target("x", value, 4, at_least=at_least).met is met


def test_a_read_costs_what_all_but_the_streams_use() -> None:
    measured = read(OWNER, {"owner": 0.5, "Redis": 0.25, STREAMS: 7})
    assert measured.total_ms == pytest.approx(0.75)
    assert measured.cpu_ms(STREAMS) == pytest.approx(7)


def test_reads_are_held_against_the_peer_of_the_same_run() -> None:
    figures = Figures(reads=[read(OWNER, {"owner": 0.3, "Redis": 0.1})])
    assert targets(figures) == []
    figures.peers.reads[OWNER] = read("theirs", {"Kafka Streams": 0.1})
    (target,) = targets(figures)
    assert target.value == pytest.approx(4)
    assert target.met


def test_the_combined_answer_is_held_against_its_walks() -> None:
    figures = Figures(reads=[read(COMBINED, {"gateway": 1, "recommender": 2})], walks_ms=2)
    (target,) = targets(figures)
    assert target.value == pytest.approx(1.5)
    assert target.parts == {"gateway": 1, "recommender": 2}


def test_p99_may_rise_as_much_as_the_peers() -> None:
    def paced(idle: float, loaded: float) -> Paced:
        return Paced(read(OWNER, {"owner": 1}, p99_ms=idle), read(OWNER, {"owner": 1}, p99_ms=loaded))

    figures = Figures(paced=[paced(5, 20)])
    figures.peers.paced = paced(1, 13)
    (target,) = targets(figures)
    assert (target.value, target.limit, target.met) == (15, 12, False)


def test_ingest_is_compared_by_halves_and_as_a_whole() -> None:
    figures = Figures(ingest=Ingest(30, 44, 1, 1))
    figures.peers.ingest = Ingest(20, 20, 1, None)
    assert [target.value for target in targets(figures)] == [pytest.approx(2.2), pytest.approx(1.5)]


def test_cores_of_stream_and_state_are_added_up() -> None:
    found = by_name(Figures(freshness=EventLatency(100, 400, {STREAMS: 0.5, "Redis": 0.25}, None)))
    assert [target.met for target in found.values()] == [True, False, True]
    assert found["CPU of stream and Redis at 5,000 events/s"].value == 0.75


def test_answers_that_are_not_200_are_named() -> None:
    figures = Figures(reads=[read(OWNER, {"owner": 1}), read(COMBINED, {"gateway": 1}, bad=3)])
    assert figures.failures() == [f"{COMBINED}, {FEW} connections: 3 of 1,000 answers failed"]
