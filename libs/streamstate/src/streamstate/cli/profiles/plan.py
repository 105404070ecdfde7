"""`streamstate profile plan`: memory and CPU of a profile, from a sample of its topic."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
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
from streamstate.cli.profiles.sample import Census, partitions, sampled
from streamstate.cli.profiles.scratch import ELSEWHERE, TrialState
from streamstate.errors import Declined, Misconfigured
from streamstate.processing.decode import RawRecord
from streamstate.profile.declaration import Declaration
from streamstate.state.operations import DAY_MS

READ = 10
"""Records read for each folded record, at least: whole partitions, so that all records of a key are seen."""
_TOGETHER = 500
"""Records folded at a time."""
_EXPECTED_BYTES = 1_000
"""The assumed memory of a record before the measurement."""

Log = Callable[[Sequence[int]], Iterator[tuple[int, RawRecord]]]
"""Reads partitions from their beginnings to their ends: the partition and content of each record."""


class ProfilePlan(msgspec.Struct):
    """The measured state of some keys of a profile, and its sum for all `keys` and `records` of the topic.

    sampled: the folded records, and refused: the dead letters among them. span_days: the time over which the records
        came. kept_days: how long histories keep an event; 0 without windows. bytes, window_bytes: of Redis, for all
        keys, without windows and of windows, which grow until the topic spans `kept_days`. redis_us, python_us:
        microseconds of CPU for a record.
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
    bytes: int
    window_bytes: int
    redis_us: float
    python_us: float

    @property
    def bytes_together(self) -> int:
        return self.bytes + self.window_bytes


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
        keys = census.keys.keys() if everywhere else sampled(census.keys, records)
        with scratch.scratch(client, self.app, f"{self.app.name}.plan", len(self.sizes), read, self.ahead) as state:
            begun = scratch.redis_cpu_s(client)
            self._fold(read, keys, state)
            return self._plan(read, census, keys, state, scratch.redis_cpu_s(client) - begun)

    def _fold(self, read: Sequence[int], keys: Set[bytes], state: TrialState) -> None:
        """Fold the records of `keys`."""
        records = ((partition, record) for partition, record in self.log(read) if (record[2] or b"") in keys)
        while together := list(islice(records, _TOGETHER)):
            state.fold(together)
        state.expire(len(keys))

    def _plan(
        self, read: Sequence[int], census: Census, keys: Set[bytes], state: TrialState, redis_s: float
    ) -> ProfilePlan:
        wider = len(self.sizes) / len(read)
        records = round(census.keys.total() * sum(self.sizes.values()) / sum(self.sizes[each] for each in read))
        folded, size = sum(map(census.keys.__getitem__, keys)), state.bytes()
        return ProfilePlan(
            self.app.name,
            self.app.topics[-1],
            records,
            round(len(census.keys) * wider),
            folded,
            len(keys),
            state.refused,
            census.span_ms(self.latest) / DAY_MS,
            (self.declared.kept_ms if self.declared.windows else 0) / DAY_MS,
            round(size.ever * len(census.keys) / len(keys) * wider),
            # A history holds events.
            round(size.windows * records / folded),
            redis_s / folded * 1e6,
            state.python_s / folded * 1e6,
        )


def plan(
    file: File,
    *,
    records: Annotated[int, typer.Option(min=1_000, help="Number of records.")] = 100_000,
    as_json: AsJson = False,
) -> None:
    """Measure memory and CPU of a profile: fold all records of some keys into Redis.

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
    sizes = {
        "without windows": answer.bytes,
        f"windows, {answer.kept_days:g} days": answer.window_bytes,
        "together": answer.bytes_together,
    }
    rows = [(name, f"{size / max(answer.keys, 1):,.0f}", scratch.megabytes(size)) for name, size in sizes.items()]
    yield output.table(("memory", "bytes a key", "all keys"), rows)
    if answer.span_days < answer.kept_days:
        yield f"\nthe windows grow until the topic spans {answer.kept_days:g} days"
    yield (
        f"\nCPU a record: {answer.redis_us:.1f} µs of Redis, {answer.python_us:.1f} µs of Python, without Spark's own"
    )
