"""Claims of partitions, which check the stored state against the present topics."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import structlog

from streamstate.app import App
from streamstate.kafka.history import TopicHistory
from streamstate.processing.fitness import (
    LOST,
    allowed,
    left_out,
    refusal,
    require_beginnings,
    require_ends,
    require_same_folds,
    require_same_topics,
)
from streamstate.state.store import OPEN, Allowance, Claim, Origin, Store, TopicPartition, whole

log = structlog.get_logger()


@dataclass(frozen=True)
class Claims:
    """Claims partitions of `app` for `owner`, the address (host:port) of its API.

    The topics that the app itself fills have the target `OPEN` until the topics behind them are built.

    truncated: topics whose first records a state may lack. skip_lost: whether to go on after records were deleted
        unread.
    """

    app: App
    store: Store
    history: TopicHistory
    owner: str
    truncated: Collection[str]
    skip_lost: bool

    def claim(
        self, partitions: Iterable[int], origins: Mapping[str, Origin]
    ) -> tuple[dict[int, Claim], dict[TopicPartition, int]]:
        """Claim `partitions`; returns the claims and the first offsets to read, with topics as in `origins`.

        Raises `Misconfigured` when a state does not fit its topics or the app's folds.
        """
        held = sorted(partitions)
        own = self._own if (filling := self.filling(origins)) else ()
        places = [(topic, p) for topic, origin in origins.items() for p in held if p < origin.partitions]
        begins, ends = self.history.begins(places), self.history.topics.high_watermarks(places)
        ends |= {place: OPEN for place in places if place[0] in own}
        claims = {
            p: self.store.claim(p, self.owner, _of(ends, p), origins, _of(begins, p), self.app.declarations)
            for p in held
        }
        if filling and not self.filling(origins):
            return self.claim(held, origins)
        snapshots, _ = whole(self.store, range(_width(origins)))
        require_same_topics([snapshot.origins for snapshot in snapshots.values()], origins)
        require_same_folds(self.app, self.app.topics, snapshots.values())
        if not self.skip_lost:
            self.history.require_no_gap({(topic, p): claims[p].positions.get(topic, 0) for topic, p in places})
        require_beginnings(self.app, self.app.topics, snapshots, self.truncated)
        # Asked again: the previous owner may have committed records after the first answer.
        require_ends(claims, self.history.topics.ends(places))
        claims = {p: self._skip(claim, _of(begins, p), snapshots[p].allowances) for p, claim in claims.items()}
        return claims, {(topic, p): claims[p].positions.get(topic, begins[topic, p]) for topic, p in places}

    def filling(self, origins: Mapping[str, Origin]) -> bool:
        """Whether the app's own topics lack records from before the build: a topic behind them is being built.

        Of any owner; also where a partition cannot be read.
        """
        if not self._own:
            return False
        snapshots, halves = whole(self.store, range(_width(origins)))
        behind = [topic for topic in self.app.topics if topic not in self._own]
        return bool(halves) or not all(snapshot.ready(behind) for snapshot in snapshots.values())

    @property
    def _own(self) -> Collection[str]:
        """The topics that the app fills and reads."""
        return {source.topic for source in self.app.sources if source.own_name in self.app.own}

    def _skip(self, claim: Claim, begins: Mapping[str, int], allowances: Mapping[str, Allowance]) -> Claim:
        """The claim after leaving out the records before `begins`."""
        commit = left_out(claim, begins)
        if commit is None:
            return claim
        if not (self.skip_lost or allowed(commit, allowances)):
            raise refusal(commit)
        self.store.commit(commit)
        log.error(
            "records were deleted unread",
            service=self.app.name,
            partition=claim.partition,
            count=commit.counters[LOST],
        )
        return replace(claim, positions={**claim.positions, **{step.topic: step.next for step in commit.steps}})


def _width(origins: Mapping[str, Origin]) -> int:
    return max(origin.partitions for origin in origins.values())


def _of(offsets: Mapping[TopicPartition, int], partition: int) -> dict[str, int]:
    return {topic: offset for (topic, p), offset in offsets.items() if p == partition}
