"""What a run has measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from devkit.bench.access import AccessCost
from devkit.bench.backlog import Backlog
from devkit.bench.cpu import Usage
from devkit.bench.event_latency import EventLatency
from devkit.bench.graphjet import GraphJet
from devkit.bench.ingest import Ingest, Size
from devkit.bench.overload import Overload
from devkit.bench.read_load import FEW, Measured, Situation
from devkit.bench.recommendations import Recommender, Row
from devkit.bench.watchers.figures import Watching

JSON = "json"
"""The format of the services."""


@dataclass(frozen=True)
class Paced:
    """One read at the same rate without and with events."""

    idle: Measured
    loaded: Measured

    @property
    def rise_ms(self) -> float:
        """By how much the events raise p99."""
        return self.loaded.answers.p99_ms - self.idle.answers.p99_ms


@dataclass
class Peers:
    """The figures of others in the same run.

    reads: their read, right after each of ours, by the name of ours: a machine may be faster a minute later.
    """

    ingest: Ingest | None = None
    reads: dict[str, Measured] = field(default_factory=dict)
    paced: Paced | None = None
    freshness: EventLatency | None = None
    graphjet: GraphJet | None = None


@dataclass
class Figures:
    """What was not measured is None or empty.

    formats: the ingest of topics in each format, those of the services under "json".
    """

    peers: Peers = field(default_factory=Peers)
    ingest: Ingest | None = None
    size: Size | None = None
    formats: dict[str, Ingest] = field(default_factory=dict)
    reads: list[Measured] = field(default_factory=list)
    paced: list[Paced] = field(default_factory=list)
    unasked: Usage | None = None
    walks_ms: float | None = None
    freshness: EventLatency | None = None
    rest: Usage | None = None
    backlogs: list[Backlog] = field(default_factory=list)
    access: AccessCost | None = None
    overload: Overload | None = None
    recommender: Recommender | None = None
    loading: Row | None = None
    scale: Sequence[Row] = ()
    watching: Watching | None = None

    def failures(self) -> list[str]:
        """The reads that were not all answered with 200, or refused where many connections saturate the machine."""
        pairs = [*self.paced, *filter(None, [self.peers.paced])]
        paced = [read for pair in pairs for read in (pair.idle, pair.loaded)]
        return [
            f"{read.read}, {read.situation}: {read.answers.failures:,} of {read.answers.requests:,} answers failed"
            for read in [*self.reads, *self.peers.reads.values(), *paced]
            if read.answers.failures
        ]


def peak(reads: Sequence[Measured], name: str) -> Measured | None:
    """The read `name` without load and by few connections."""
    idle = Situation(FEW)
    return next((read for read in reads if read.situation == idle and name == read.read), None)
