"""A store in memory: the reference for the behaviour of a store."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from streamstate.errors import Fenced, IncompleteCommit, Inexact, Superseded
from streamstate.state.memory import timelines
from streamstate.state.memory.bounds import bounded_merge, bounded_scores
from streamstate.state.memory.reading import answer
from streamstate.state.operations import (
    MOST,
    Append,
    Delete,
    IncrementScores,
    Merge,
    Operation,
    PushRecent,
    Put,
    Read,
    UpdateIndex,
)
from streamstate.state.store import (
    DELETIONS,
    FORMAT,
    NOTHING,
    OPEN,
    Allowance,
    Claim,
    Commit,
    Origin,
    Snapshot,
    committed,
)

T = TypeVar("T")
Numbers = Mapping[str, int]
NO_NUMBERS: Numbers = {}


@dataclass
class _Partition:
    owner: str | None = None
    epoch: int = 0
    positions: dict[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    targets: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    folds: dict[str, str] = field(default_factory=dict)
    format: int | None = None
    keys: dict[str, Any] = field(default_factory=dict)
    incomplete: bool = False
    skips: dict[tuple[str, int], str] = field(default_factory=dict)
    allowances: dict[str, Allowance] = field(default_factory=dict)
    rate: float | None = None
    record: int = 0


class MemoryStore:
    """A `Store` in a dictionary, with the same fencing as `RedisStore`. Not for several threads."""

    def __init__(self) -> None:
        self._partitions: dict[int, _Partition] = {}
        self._epochs = itertools.count(1)
        self._server = "memory"

    def claim(
        self,
        partition: int,
        owner: str,
        ends: Mapping[str, int],
        origins: Mapping[str, Origin] = NOTHING,
        begins: Mapping[str, int] = NOTHING,
        folds: Mapping[str, str] = NOTHING,
    ) -> Claim:
        held = self._partitions[partition] = self._complete(partition)
        held.owner, held.epoch = owner, next(self._epochs)
        held.format = FORMAT if held.format is None else held.format
        held.origins = {**origins, **held.origins}
        opened = {topic: end for topic, end in ends.items() if held.targets.get(topic) == OPEN}
        held.targets = {**_unstored(held, ends), **held.targets, **opened}
        held.begins |= _unstored(held, begins)
        held.folds = {**folds, **held.folds, **_unstored(held, folds)}
        positions, deletions = _positions(held)
        return Claim(partition, held.epoch, self._server, positions, dict(held.times), dict(held.skips), deletions)

    def commit(self, *commits: Commit, dry_run: bool = False) -> None:
        inexact = []
        for index, commit in enumerate(commits):
            held = self._fenced(commit)
            if not _exact(held, commit):
                inexact.append(index)
            elif not dry_run:
                self._apply(held, commit)
        if inexact:
            raise Inexact(inexact)

    def _apply(self, held: _Partition, commit: Commit) -> None:
        held.incomplete = True
        for operation in commit.operations:
            apply(held.keys, operation)
        for step in commit.steps:
            held.positions[step.topic], held.times[step.topic] = step.next, step.time
        _merge(held.counters, commit.counters)
        held.record = commit.record or held.record
        held.incomplete = False

    def _fenced(self, commit: Commit) -> _Partition:
        held = self._complete(commit.claim.partition)
        stored = {step.topic: held.positions.get(step.topic) for step in commit.steps}
        believed = commit.claim.epoch, commit.claim.server, {step.topic: step.expected for step in commit.steps}
        if held.owner is None or (held.epoch, self._server, stored) != believed:
            msg = f"partition {commit.claim.partition} stands at {stored} in epoch {held.epoch} on {self._server}"
            raise Fenced(msg)
        if commit.record is not None and held.record > commit.record:
            raise Superseded(commit.record)
        return held

    def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        return {partition: self._snapshot(partition, reads) for partition, reads in wanted.items()}

    def keys(self, partition: int) -> Mapping[str, Any]:
        """The keys of `partition`, with values of the store's own types."""
        return self._complete(partition).keys

    def empty(self) -> None:
        """FLUSHALL: the same server, without keys."""
        self._partitions.clear()

    def fence(self, partitions: Iterable[int], record: int) -> Mapping[int, Snapshot]:
        fenced = {partition: self._complete(partition) for partition in partitions}
        for held in fenced.values():
            held.record = max(held.record, record) if held.owner else 0
        return self.read(dict.fromkeys(fenced, ()))

    def skip(self, partition: int, topic: str, offset: int, reason: str) -> None:
        held = self._partitions[partition] = self._complete(partition)
        if (stored := held.positions.get(topic, 0)) > offset:
            raise committed(topic, partition, offset, stored)
        held.skips[topic, offset] = reason
        held.epoch = next(self._epochs)

    def allow(self, partition: int, topic: str, allowance: Allowance) -> None:
        self._partitions.setdefault(partition, _Partition()).allowances[topic] = allowance

    def throttle(self, partition: int, rate: float | None) -> None:
        self._partitions.setdefault(partition, _Partition()).rate = rate

    def delete(self, partition: int) -> None:
        """As a `Deletion` does, at once."""
        self._partitions.pop(partition, None)

    def _complete(self, partition: int) -> _Partition:
        held = self._partitions.get(partition, _Partition())
        if held.incomplete:
            raise IncompleteCommit(f"{{memory:{partition}}}")
        return held

    def _snapshot(self, partition: int, reads: Sequence[Read]) -> Snapshot:
        held = self._complete(partition)
        positions, deletions = _positions(held)
        return Snapshot(
            held.owner,
            held.epoch,
            positions,
            dict(held.times),
            dict(held.targets),
            dict(held.counters),
            dict(held.origins),
            [answer(held.keys, read) for read in reads],
            dict(held.begins),
            dict(held.folds),
            held.format,
            dict(held.allowances),
            deletions,
            rate=held.rate,
            record=held.record,
        )


def _positions(held: _Partition) -> tuple[dict[str, int], int | None]:
    """The next offsets of the topics, and of the topic of deletions."""
    positions = dict(held.positions)
    return positions, positions.pop(DELETIONS, None)


def _unstored(held: _Partition, by_topic: Mapping[str, T]) -> dict[str, T]:
    """The topics without a stored offset."""
    return {topic: value for topic, value in by_topic.items() if topic not in held.positions}


def apply(keys: dict[str, Any], operation: Operation) -> None:
    match operation:
        case Put(key, value):
            keys[key] = value
        case Delete(key):
            keys.pop(key, None)
        case Merge():
            merge = bounded_merge(keys.get(operation.key, {}), operation)
            _add(keys, operation.key, merge.add, merge.least, merge.most)
        case IncrementScores():
            by, others = bounded_scores(keys.get(operation.key, {}), operation)
            _add(keys, operation.key, by)
            _add(keys, operation.hash, others)
        case UpdateIndex(key, add, remove):
            if isinstance(held := keys.setdefault(key, set()) if add else keys.get(key, set()), dict):
                for member in remove:
                    held.pop(member, None)
            else:
                held.update(add)
                held.difference_update(remove)
        case PushRecent(key, members, keep):
            kept = sorted({**keys.get(key, {}), **members}.items(), key=timelines.by_time, reverse=True)
            keys[key] = dict(kept[:keep])
        case Append(key, number, text, keep):
            keys.setdefault(key, timelines.Log()).append(number, text.encode(), keep)
        case _:
            timelines.apply(keys, operation)


def _add(keys: dict[str, Any], key: str, *numbers: Mapping[str, int]) -> None:
    if any(numbers):
        _merge(keys.setdefault(key, {}), *numbers)


def _merge(fields: dict[str, int], add: Numbers, least: Numbers = NO_NUMBERS, most: Numbers = NO_NUMBERS) -> None:
    for name, number in add.items():
        fields[name] = fields.get(name, 0) + number
    for name, number in least.items():
        fields[name] = min(fields.get(name, number), number)
    for name, number in most.items():
        fields[name] = max(fields.get(name, number), number)


def _exact(held: _Partition, commit: Commit) -> bool:
    """Whether all numbers that the commit would make are within ±2^53. Only the changed numbers are copied."""
    made: dict[str, dict[str, int]] = {}
    deleted: set[str] = set()
    for each in commit.operations:
        match each:
            case Delete(key):
                made[key] = {}
                deleted.add(key)
            case Merge() | IncrementScores():
                numbers = made.setdefault(each.key, {})
                stored = {} if each.key in deleted else held.keys.get(each.key, {})
                names = _changed(each, stored)
                numbers.update({name: stored[name] for name in names if name in stored and name not in numbers})
                others = {}
                if isinstance(each, IncrementScores) and each.hash:
                    others = made.setdefault(each.hash, dict(held.keys.get(each.hash, {})))
                apply(made, each)
                if any(abs(number) > MOST for number in (*numbers.values(), *others.values())):
                    return False
    return True


def _changed(each: Merge | IncrementScores, stored: Mapping[str, int]) -> Iterable[str]:
    """The fields or members that decide the result of an operation on these `stored` numbers."""
    if isinstance(each, Merge):
        bounds = (name for prefix in each.groups for name in (prefix, f"{prefix}#"))
        return [*each.add, *each.least, *each.most, *bounds]
    full = each.bound is not None and len(stored) + len(each.by) > each.bound.limit
    return stored if full else each.by
