"""One partition of a service, replayed to the positions of the stored state."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

from confluent_kafka import Message

from streamstate.app import App
from streamstate.erasure.applying import Erased
from streamstate.kafka.dlq.topic import Refusals
from streamstate.kafka.history import TopicHistory, TopicLog
from streamstate.processing.decode import DEAD, DEAD_FOR, MISPLACED, Refusal
from streamstate.replay.engine import Replay
from streamstate.replay.feed import Dated, MergedLogs, dated
from streamstate.state.memory.timelines import Family
from streamstate.state.operations import Read, Since
from streamstate.state.store import Claim, Origin, Snapshot, TopicPartition
from streamstate.verify.difference import unequal
from streamstate.verify.outputs import Collector
from streamstate.verify.readable import Readable, ReadableStore, answer, lacking, total, unexpired, wrong_log

NOTICED = 1_000
"""Records from one call of `notice` to the next."""

_LATEST = 2**63 - 1

Order = Callable[[list[Iterator[Dated]]], Iterable[Dated]]
"""The records of several topics in one order."""


class Rewound(Exception):
    """The state went back: it was emptied, its server lost data, or users were deleted."""


def by_stream_time(logs: list[Iterator[Dated]]) -> Iterator[Dated]:
    return MergedLogs(logs).until(_LATEST)


def in_turn(logs: list[Iterator[Dated]]) -> Iterator[Dated]:
    return chain.from_iterable(logs)


def in_reverse(logs: list[Iterator[Dated]]) -> Iterator[Dated]:
    return chain.from_iterable(reversed(logs))


def orders(app: App) -> tuple[Order, ...]:
    """The orders of a replay. The micro-batches that merged topics are unknown: what all orders agree in is certain."""
    return (by_stream_time, in_turn, in_reverse) if app.merges else (in_turn,)


@dataclass(frozen=True)
class Inputs:
    """The topics of `app`, with their `history`; `refusals` are read again for further records."""

    app: App
    origins: Mapping[str, Origin]
    history: TopicHistory
    refusals: Refusals
    horizons: Mapping[str, float]


class OrderedReplay:
    """The records of a partition in one order. notice: called with numbers of read records."""

    def __init__(
        self,
        inputs: Inputs,
        partition: int,
        erased: Erased,
        refused: Mapping[TopicPartition, Mapping[int, Refusal]],
        order: Order,
        opened: ExitStack,
    ) -> None:
        app, exact = inputs.app, not (inputs.app.merges or inputs.app.tables)
        self.store = ReadableStore()
        self.outputs = Collector(app, inputs.origins, inputs.horizons, exact=exact, whole=not erased)
        self._replay = Replay(app, self.store, inputs.origins, refused, erased, self.outputs)
        self._app = app
        self._partition = partition
        self._refused = refused
        self._order = order
        self._logs: dict[str, TopicLog] = {
            source.topic: opened.enter_context(inputs.history.log((source.topic, partition), emptied=source.marked))
            for source in app.sources
            if partition < inputs.origins[source.topic].partitions
        }

    def advance(self, positions: Mapping[str, int], notice: Callable[[Iterable[Message]], Iterator[Message]]) -> None:
        times = self.snapshot.times
        logs = [
            dated(
                notice(log.up_to(positions.get(topic, 0))),
                self._app.sources[rank],
                rank,
                self._partition,
                self._refused.get((topic, self._partition), {}),
                time=times.get(topic, 0),
            )
            for rank, (topic, log) in enumerate((topic, self._logs.get(topic)) for topic in self._app.topics)
            if log
        ]
        self._replay.fold(self._order(logs))

    @property
    def snapshot(self) -> Snapshot:
        return self.store.read({self._partition: ()})[self._partition]

    @property
    def keys(self) -> Mapping[str, Any]:
        return self.store.keys(self._partition)

    @property
    def readable(self) -> Mapping[str, Readable]:
        return self.store.readable[self._partition]


class PartitionReplay:
    """Replays of a partition, in each of the orders, and their comparison with the stored state. A context manager.

    deletions: the offset before which the state has applied the deletions of users. erased: by these deletions.
    """

    def __init__(
        self, inputs: Inputs, partition: int, erased: Erased, deletions: int | None, notice: Callable[[int], None]
    ) -> None:
        self.records = 0
        self.reached: dict[str, int] = {}
        self._inputs = inputs
        self._partition = partition
        self.erased = erased
        self._deletions = deletions
        self._notice = notice
        self._refused: dict[TopicPartition, dict[int, Refusal]] = {
            (topic, partition): {} for topic in inputs.app.topics
        }
        self._opened = ExitStack()
        self.replays = [
            OrderedReplay(inputs, partition, erased, self._refused, order, self._opened) for order in orders(inputs.app)
        ]
        self._entries = next((fold.entries for fold in inputs.app.folds if fold.entries), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def advance(self, state: Snapshot) -> None:
        """Fold the records before the positions of `state`. Raises `Rewound` when later records are folded already."""
        positions = {topic: state.positions.get(topic, 0) for topic in self._inputs.app.topics}
        if state.deletions != self._deletions or any(positions[topic] < at for topic, at in self.reached.items()):
            raise Rewound
        if positions == self.reached:
            return
        # All letters of records in the state are written by now.
        claims = {self._partition: Claim(self._partition, 0, "", {})}
        for place, refused in self._inputs.refusals.read(self._inputs.origins, claims).items():
            self._refused[place].update(refused)
        for number, replay in enumerate(self.replays):
            replay.advance(positions, self._counted if number == 0 else iter)
        self.reached = positions

    def _counted(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            self.records += 1
            if self.records % NOTICED == 0:
                self._notice(self.records)
            yield message

    def readable(self, key: str) -> Readable | None:
        """How `key` is read; None for a key that no order writes."""
        return next((found for replay in self.replays if (found := replay.readable.get(key))), None)

    def written(self) -> Iterable[str]:
        """The keys that an order writes."""
        return dict.fromkeys(chain.from_iterable(replay.readable for replay in self.replays))

    def wrong(self, key: Readable, stored: list[Any], expired: Mapping[str, int]) -> str | None:
        """The difference of the answers of a key. expired: by family, the time before which entries are expired."""
        family = self.replays[0].keys.get(key.family)
        begin = max(expired.get(key.family, 0), (family.expired or 0) if isinstance(family, Family) else 0)
        reasons = (self._differs(key, read, value, begin) for read, value in zip(key.reads, stored, strict=True))
        return next(filter(None, reasons), None)

    def _differs(self, key: Readable, read: Read, value: Any, begin: int) -> str | None:
        answers = [answer(replay.keys, read) for replay in self.replays]
        if isinstance(read, Since) and self._entries:
            return wrong_log(answers[0], value, key.keep, self._entries)
        if self.erased:
            # The time of an expiry may be of a record that is erased since.
            answers, value = [unexpired(read, each, begin) for each in answers], unexpired(read, value, begin)
        totals = {total(read, each) for each in answers}
        # The order of a deleted user's records is lost with the records.
        open_order = self.erased and len(answers) > 1 and None not in totals
        if open_order or any(each != answers[0] for each in answers):
            return unequal(totals.pop(), total(read, value)) if len(totals) == 1 else None
        if key.names:
            return unequal(lacking(answers[0], value, begin), {})
        return None if answers[0] == value else unequal(_by_name(answers[0]), _by_name(value))

    def wrong_fields(self, state: Snapshot) -> str | None:
        """The difference of the partition's stream times and counters."""
        ours = [replay.snapshot for replay in self.replays]
        times = {topic: state.times.get(topic, 0) for topic in self.reached if topic in state.positions}
        expected = {topic: ours[0].times.get(topic, 0) for topic in times}
        if reason := unequal(expected, times):
            return f"stream times: {reason}"
        certain = {
            name: number
            for name, number in ours[0].counters.items()
            if _is_compared(name) and all(each.counters.get(name) == number for each in ours)
        }
        open_names = {name for each in ours for name in each.counters} - certain.keys()
        counted = {name: count for name, count in state.counters.items() if _is_compared(name)}
        # A state counted the records of a user until the user's deletion.
        found = {
            name: min(count, certain.get(name, 0)) if self.erased and name != DEAD else count
            for name, count in counted.items()
            if name not in open_names
        }
        reason = unequal(_positive(certain), _positive(found))
        return f"counters: {reason}" if reason else None


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _is_compared(counter: str) -> bool:
    """The reasons of dead letters, and the declared partitioner, may have been others then."""
    return counter != MISPLACED and not counter.startswith(DEAD_FOR)


def _by_name(value: Any) -> Any:
    """The pairs of a list as a map, for a short difference."""
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value
