"""The report on a service, from the contents of Kafka and Redis at one moment."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from math import inf

import msgspec

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Member
from streamstate.processing.fitness import (
    allowed,
    left_out,
    needed,
    refusal,
    require_beginnings,
    require_copartitioned,
    require_ends,
    require_same_folds,
    require_same_topics,
)
from streamstate.processing.placement import misplaced
from streamstate.processing.topic_settings import Finding, require_settings
from streamstate.settings import StreamSettings
from streamstate.state.store import Claim, Origin, Snapshot, TopicPartition

DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True)
class Seen:
    """An app's topics, its readable partitions, and the members of its consumer group.

    ends, stable: the ends of the topics, with and without the records held back by open transactions. members: the
        instances in the group. history: seconds until Kafka may delete the first record of a topic, 0 where it has,
        infinite where it never does. faults: unreadable parts, with advice. findings: wrong settings of topics.
    """

    origins: Mapping[str, Origin]
    begins: Mapping[TopicPartition, int]
    snapshots: Mapping[int, Snapshot]
    ends: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]
    members: Mapping[str, Member]
    history: Mapping[str, float]
    faults: Sequence[str] = ()
    findings: Sequence[Finding] = ()

    @property
    def partitions(self) -> range:
        """The partitions of the app."""
        return range(max((origin.partitions for origin in self.origins.values()), default=0))

    @cached_property
    def instances(self) -> Mapping[int, str]:
        """The assigned instance of each partition."""
        return {partition: instance for instance, of in self.members.items() for partition in of.partitions}

    @property
    def deployed(self) -> bool:
        """Whether an instance runs, or has left a state, readable or not."""
        owned = any(snapshot.owner for snapshot in self.snapshots.values())
        return owned or bool(self.members) or len(self.snapshots) < len(self.partitions)

    def lag(self, place: TopicPartition) -> int:
        """Records in Kafka that the state lacks; transaction markers count as records."""
        snapshot = self.snapshots.get(place[1])
        position = snapshot.positions.get(place[0], 0) if snapshot else 0
        return max(0, self.ends[place] - max(position, self.begins[place]))


class TopicReport(msgspec.Struct):
    """A topic of a service. `newest_ms` is the greatest Kafka timestamp in the state, None without records."""

    topic: str
    partitions: int
    lag: int
    newest_ms: int | None


class PartitionReport(msgspec.Struct):
    """A partition: the owner's address and epoch by the state, the instance by the consumer group.

    `progress` is the done share of the first build, 0 to 1; the partition is not served before it is `ready`.
    """

    partition: int
    owner: str | None
    instance: str | None
    epoch: int
    ready: bool
    progress: float
    lag: int


class ServiceReport(msgspec.Struct):
    """A service. `counts` are counters such as dead letters, summed over all partitions; `faults` say what to do.

    `allowances` are the records that an operator allows the state to lack, with the reasons. `warnings` announce
    operations that will become impossible, and when, and topics whose keys are not where they are looked for.
    """

    service: str
    topics: list[TopicReport]
    partitions: list[PartitionReport]
    counts: dict[str, int]
    faults: list[str]
    allowances: list[str]
    warnings: list[str]

    @property
    def healthy(self) -> bool:
        """Whether each partition is ready, and nothing is refused."""
        return not self.faults and all(partition.ready for partition in self.partitions)

    @property
    def running(self) -> bool:
        """Whether an instance has a partition."""
        return any(partition.instance for partition in self.partitions)

    @property
    def progress(self) -> float:
        """How much of the first build is done, 0 to 1."""
        return min((partition.progress for partition in self.partitions), default=0.0)

    @property
    def lag(self) -> int:
        return sum(topic.lag for topic in self.topics)


def report(app: App, seen: Seen, settings: StreamSettings) -> ServiceReport:
    """The report of `seen` for `app`, whose streams run with `settings`."""
    counts: Counter[str] = Counter()
    for snapshot in seen.snapshots.values():
        counts.update(snapshot.counters)
    topics = [_topic(topic, seen) for topic in seen.origins]
    partitions = [_partition(app, partition, seen) for partition in seen.partitions]
    faults = [*seen.faults, *refusals(app, seen, settings), *_not_folded(app, seen)]
    warnings = [*misplaced(app, app.topics, seen.snapshots.values()), *_rates(seen), *_history(app, seen, settings)]
    warnings += [finding.text for finding in undecided(seen, settings) if finding.text not in faults]
    allowances = list(_allowances(seen))
    made = ServiceReport(app.name, topics, partitions, dict(counts), faults, allowances, warnings)
    faults.extend(_dead_letters(made, seen, settings))
    return made


def undecided(seen: Seen, settings: StreamSettings) -> Iterator[Finding]:
    """The wrong settings of topics, apart from those whose effect an operator allows."""
    allowed = {*settings.truncated_topics, *(topic for of in seen.snapshots.values() for topic in of.allowances)}
    return (finding for finding in seen.findings if finding.effect != "build" or finding.topic not in allowed)


def _rates(seen: Seen) -> Iterator[str]:
    rates = [snapshot.rate for snapshot in seen.snapshots.values() if snapshot.rate is not None]
    if rates:
        yield f"builds are limited to {round(sum(rates))} records a second (`streamstate throttle`)"


def _allowances(seen: Seen) -> Iterator[str]:
    for partition, snapshot in seen.snapshots.items():
        for topic, (before, reason) in snapshot.allowances.items():
            yield f"{topic}:{partition} may lack {f'the records before {before}' if before else 'records'}: {reason}"


def _history(app: App, seen: Seen, settings: StreamSettings) -> Iterator[str]:
    """The records that Kafka has deleted, or will delete, from topics that a build needs."""
    for topic in sorted(needed(app, seen.snapshots.values(), settings.truncated_topics)):
        if (left_s := seen.history.get(topic, inf)) < inf:
            when = f"may delete the first records of {topic} in {timedelta(seconds=round(left_s))} (retention.ms)"
            yield (
                f"Kafka {when if left_s else f'has deleted the first records of {topic}'}; a rebuild and `verify` need "
                "them: lengthen the retention, and back Redis up (docs/back-up.md)"
            )


def _topic(topic: str, seen: Seen) -> TopicReport:
    partitions = seen.origins[topic].partitions
    times = [snapshot.times[topic] for snapshot in seen.snapshots.values() if snapshot.times.get(topic)]
    lag = sum(seen.lag((topic, partition)) for partition in range(partitions))
    return TopicReport(topic, partitions, lag, max(times, default=None))


def _partition(app: App, partition: int, seen: Seen) -> PartitionReport:
    lag = sum(seen.lag(place) for place in seen.ends if place[1] == partition)
    instance = seen.instances.get(partition)
    snapshot = seen.snapshots.get(partition)
    if snapshot is None:
        return PartitionReport(partition, None, instance, 0, ready=False, progress=0.0, lag=lag)
    ready, progress = snapshot.ready(app.topics), snapshot.progress(app.topics)
    if snapshot.owner is None:
        progress = 0.0
    return PartitionReport(partition, snapshot.owner, instance, snapshot.epoch, ready, progress, lag)


def refusals(app: App, seen: Seen, settings: StreamSettings) -> Iterator[str]:
    """Why streams or APIs refuse the state: the first violation of each rule, in the words of the process."""
    states = seen.snapshots
    ends = {place: end for place, end in seen.stable.items() if place[1] in states}
    rules: tuple[Callable[[], None], ...] = (
        lambda: require_copartitioned(app, seen.origins),
        lambda: require_same_topics([state.origins for state in states.values()], seen.origins),
        lambda: require_same_folds(app, app.topics, states.values()),
        lambda: require_beginnings(app, app.topics, states, settings.truncated_topics),
        lambda: require_settings(seen.findings, states, settings.truncated_topics),
        lambda: require_ends(states, ends),
        lambda: _require_unread(seen, settings),
    )
    for rule in rules if len(seen.origins) == len(app.topics) else ():
        try:
            rule()
        except Misconfigured as error:
            yield str(error)


def _require_unread(seen: Seen, settings: StreamSettings) -> None:
    """Raise `Misconfigured` when Kafka has deleted unread records, and the settings do not accept the loss."""
    for partition, snapshot in seen.snapshots.items():
        claim = Claim(partition, snapshot.epoch, "", snapshot.positions, snapshot.times)
        commit = left_out(claim, {topic: begin for (topic, p), begin in seen.begins.items() if p == partition})
        if commit and settings.lost_records == "stop" and not allowed(commit, snapshot.allowances):
            raise refusal(commit)


def _not_folded(app: App, seen: Seen) -> Iterator[str]:
    left = [partition for partition in seen.partitions if partition not in seen.instances]
    if left and not seen.members:
        yield (
            f"no stream runs in the consumer group {app.group}; start one, or correct STREAMSTATE_NAME or "
            "STREAMSTATE_GROUP"
        )
    elif left:
        yield f"no instance folds {_numbers(left)} of {app.name}; start the missing instances, or read their logs"


def _dead_letters(made: ServiceReport, seen: Seen, settings: StreamSettings) -> Iterator[str]:
    dead = made.counts.get(DEAD_LETTERS, 0)
    read = sum(
        position - snapshot.begins.get(topic, 0)
        for snapshot in seen.snapshots.values()
        for topic, position in snapshot.positions.items()
    )
    if made.lag and dead > settings.dead_letters and dead > settings.dead_letter_share * read:
        yield (
            f"{dead} of {read} records are dead letters, which stops a stream: see "
            "`streamstate dlq list SERVICE`, then roll the release back or fix it"
        )


def _numbers(partitions: Sequence[int]) -> str:
    return f"partition{'s' if len(partitions) > 1 else ''} {', '.join(map(str, partitions))}"
