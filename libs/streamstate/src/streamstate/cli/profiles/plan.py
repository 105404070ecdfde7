"""`streamstate profile plan`: memory and CPU of a profile, from a sample of its topic."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import redis
import typer
from rich.console import RenderableType

from streamstate import bootstrap
from streamstate.app import App
from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.profiles import scratch
from streamstate.cli.profiles.declared import Declared, File
from streamstate.cli.profiles.sample import Bytes, Census, Estimate, Folded, Strata, Total, partitions, strata
from streamstate.cli.profiles.scratch import ELSEWHERE, TrialState
from streamstate.errors import Declined, Misconfigured
from streamstate.processing.decode import RawRecord
from streamstate.profile.declaration import Declaration
from streamstate.state.operations import DAY_MS

READ = 10
"""Records read for each folded record, at least: whole partitions, so that all records of a key are seen."""
_TOGETHER = 500
"""Records folded at a time."""
_MOST_GROWTH = 10
"""How many times a topic may grow until its windows are full, for an estimate."""
_EXPECTED_BYTES = 1_000
"""The assumed memory of a record before the measurement."""

Log = Callable[[Sequence[int]], Iterator[tuple[int, RawRecord]]]
"""Reads partitions from their beginnings to their ends: the partition and content of each record."""


class Memory(msgspec.Struct):
    """Bytes of Redis without windows, and of windows."""

    ever: int
    windows: int

    @property
    def together(self) -> int:
        return self.ever + self.windows


class ProfilePlan(msgspec.Struct):
    """The state of a profile over its whole topic: `now`, and `full` with full windows.

    full: None where the topic is shorter than a tenth of the time that histories keep. sampled: the folded records, and
        refused: the dead letters among them. span_days: the time over which the records came. kept_days: how long
        histories keep an event; 0 without windows. redis_us, python_us: microseconds of CPU for a record.
    """

    name: str
    topic: str
    records: int
    keys: int
    sampled: int
    sampled_keys: int
    refused: int
    span_days: float
    kept_days: float
    now: Memory
    full: Memory | None
    redis_us: float
    python_us: float


@dataclass(frozen=True)
class Planning:
    """The measurement of the state of `app`, over a topic with `sizes` records by partition, read by `log`.

    latest: the greatest accepted timestamp; ahead: its distance from the clock; both in milliseconds.
    """

    declared: Declaration
    app: App
    sizes: Mapping[int, int]
    log: Log
    latest: int
    ahead: int

    def plan(self, client: redis.Redis, records: int) -> ProfilePlan:
        """The plan, from a fold of some `records` records. Raises `Declined` when Redis has no room."""
        if not sum(self.sizes.values()):
            msg = f"{self.app.topics[-1]} has no records: send some, and plan then"
            raise Declined(msg)
        scratch.require_room(client, min(records, sum(self.sizes.values())) * _EXPECTED_BYTES)
        # Over all keys, the state of a partition does not follow from the state of some keys.
        everywhere = self.declared.everywhere
        read = partitions(self.sizes, records if everywhere else READ * records)
        census = Census()
        for _, (_, timestamp, key, _) in self.log(read):
            census.add(key or b"", timestamp)
        chosen = Strata(set(), set(census.keys), [*census.keys], []) if everywhere else strata(census.keys, records)
        names = [f"{self.app.name}.{part}" for part in ("busy", "some")]
        with scratch.scratch(client, self.app, names, len(self.sizes), read, self.ahead) as parts:
            begun = scratch.redis_cpu_s(client)
            folded = self._fold(read, chosen, parts)
            return self._plan(read, census, chosen, folded, scratch.redis_cpu_s(client) - begun)

    def _fold(self, read: Sequence[int], chosen: Strata, parts: Sequence[TrialState]) -> Sequence[TrialState]:
        """Fold the records of the chosen keys."""
        waiting: defaultdict[TrialState, list[tuple[int, RawRecord]]] = defaultdict(list)
        for partition, record in self.log(read):
            for part, keys in zip(parts, chosen[:2], strict=True):
                if (record[2] or b"") in keys:
                    waiting[part].append((partition, record))
                    if len(waiting[part]) == _TOGETHER:
                        part.fold(waiting.pop(part))
        for part, keys in zip(parts, chosen[:2], strict=True):
            part.fold(waiting[part])
            part.expire(len(keys))
        return parts

    def _plan(
        self, read: Sequence[int], census: Census, chosen: Strata, parts: Sequence[TrialState], redis_s: float
    ) -> ProfilePlan:
        busy, some = (
            Folded(len(keys), sum(map(census.keys.__getitem__, keys)), part.bytes())
            for keys, part in zip(chosen[:2], parts, strict=True)
        )
        wider = len(self.sizes) / len(read)
        records = round(census.keys.total() * sum(self.sizes.values()) / sum(self.sizes[each] for each in read))
        others, giants = ([census.keys[key] for key in keys] for keys in chosen[2:])
        # Over all keys, the distinct values of a partition matter more than its records.
        scaled = records if self.declared.everywhere else sum(others) * wider
        total = Total(records, len(others) * wider, scaled, giants)
        span_ms = census.span_ms(self.latest)
        kept_ms = self.declared.kept_ms if self.declared.windows else 0
        growth = max(1.0, kept_ms / span_ms)
        estimate, sampled = Estimate(busy, some, total), busy.records + some.records
        return ProfilePlan(
            self.app.name,
            self.app.topics[-1],
            records,
            round(len(census.keys) * wider),
            sampled,
            busy.keys + some.keys,
            sum(part.refused for part in parts),
            span_ms / DAY_MS,
            kept_ms / DAY_MS,
            _memory(estimate.now()),
            _memory(estimate.later(growth, census.key_growth(self.latest, growth))) if growth <= _MOST_GROWTH else None,
            redis_s / sampled * 1e6,
            sum(part.python_s for part in parts) / sampled * 1e6,
        )


def _memory(estimated: Bytes) -> Memory:
    return Memory(round(estimated.ever), round(estimated.windows))


def plan(
    file: File,
    *,
    records: Annotated[int, typer.Option(min=1_000, help="Number of records.")] = 100_000,
    as_json: AsJson = False,
) -> None:
    """Estimate memory and CPU of a profile: fold all records of some keys into Redis, and measure.

    The trial state in STREAMSTATE_REDIS is deleted at the end. Redis must be no cluster.
    """
    of = Declared.of(file)
    begins, ends = of.bounds()
    sizes = {partition: end - begins[partition] for partition, end in ends.items()}
    if of.declaration.key_field:
        sizes = dict.fromkeys(sizes, -(-sum(sizes.values()) // len(sizes)))
    client = bootstrap.client(of.settings)
    if not isinstance(client, redis.Redis):
        msg = f"a cluster of Redis does not measure a plan: {ELSEWHERE}"
        raise Misconfigured(msg)

    def log(read: Sequence[int]) -> Iterator[tuple[int, RawRecord]]:
        return of.keyed(begins, read)

    planning = Planning(of.declaration, of.app, sizes, log, of.latest, of.tolerance_ms)
    answer = planning.plan(client, records)
    output.show(answer, *_overview(answer), as_json=as_json)


def _overview(answer: ProfilePlan) -> Iterator[RenderableType]:
    yield (
        f"{answer.name} over {answer.topic}: {answer.records:,} records of {answer.keys:,} keys in "
        f"{answer.span_days:.1f} days; sample: {answer.sampled:,} records of {answer.sampled_keys:,} keys, of which "
        f"{answer.refused:,} refused\n"
    )
    columns = [answer.now, *([answer.full] if answer.full else [])]
    rows = [
        ("without windows", *(scratch.megabytes(each.ever) for each in columns)),
        (f"windows, {answer.kept_days:g} days", *(scratch.megabytes(each.windows) for each in columns)),
        ("together", *(scratch.megabytes(each.together) for each in columns)),
        ("bytes a key now", f"{answer.now.together / max(answer.keys, 1):,.0f}"),
    ]
    yield output.table(("memory", "now", "with full windows")[: 1 + len(columns)], rows)
    if not answer.full:
        yield f"\nwith full windows: unknown, for the topic has less than a tenth of {answer.kept_days:g} days"
    yield (
        f"\nCPU a record: {answer.redis_us:.1f} µs of Redis, {answer.python_us:.1f} µs of Python, without Spark's own"
    )
