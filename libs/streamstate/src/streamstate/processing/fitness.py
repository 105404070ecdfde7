"""Whether a state can be continued: from the same topics by the same folds, with the beginnings and ends of logs.

A state of a truncated log cannot be exact, so an operator decides.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.state.store import FORMAT, Allowance, Claim, Commit, OffsetAdvance, Origin, Snapshot, TopicPartition

LOST = "lost_records"

MOST = 5
"""The most differences shown."""

REBUILD = "build a new state: in its place by `streamstate reset SERVICE`, or beside it under another STREAMSTATE_NAME"
"""Advice for a state that cannot be continued."""


def left_out(claim: Claim, begins: Mapping[str, int]) -> Commit | None:
    """The commit that skips to the first remaining records, and counts the skipped offsets; None without a loss.

    `begins` are the first offsets in Kafka, by topic. A topic without a stored offset cannot miss records.
    """
    steps = [
        OffsetAdvance(topic, stored, begins[topic], claim.times.get(topic, 0))
        for topic, stored in claim.positions.items()
        if stored < begins.get(topic, 0)
    ]
    lost = sum(step.next - (step.expected or 0) for step in steps)
    return Commit(claim, steps, [], {LOST: lost}) if lost else None


def allowed(commit: Commit, allowances: Mapping[str, Allowance]) -> bool:
    """Whether an operator allows all losses of `commit`."""
    return all(step.next <= _allowed_before(step.topic, allowances) for step in commit.steps)


def refusal(commit: Commit) -> Misconfigured:
    """The error that names the records lost by `commit`."""
    partition = commit.claim.partition
    parts = [
        f"{step.next - (step.expected or 0)} records of {step.topic}:{partition} from offset {step.expected}"
        for step in commit.steps
    ]
    return Misconfigured(
        f"Kafka deleted {' and '.join(parts)} before they were read; bring them back, or go on without them: "
        f"{_allow(commit.steps[0].topic)}, or set STREAMSTATE_LOST_RECORDS=skip"
    )


def missing_beginnings(app: App, snapshots: Mapping[int, Snapshot]) -> dict[TopicPartition, int]:
    """The first offsets of the states in `snapshots`, for topics whose earlier records are missing."""
    return {
        (topic, partition): begin
        for partition, snapshot in snapshots.items()
        for topic, begin in snapshot.begins.items()
        if begin > 0 and topic in app.requiring_beginning
    }


def needed(app: App, snapshots: Iterable[Snapshot], truncated: Collection[str]) -> frozenset[str]:
    """The topics that states need from their first records on, apart from topics with an operator's allowance.

    truncated: topics whose first records every state may lack.
    """
    allowed = {topic for snapshot in snapshots for topic in snapshot.allowances}
    return app.requiring_beginning - {*truncated} - allowed


def require_beginnings(
    app: App, topics: Collection[str], snapshots: Mapping[int, Snapshot], truncated: Collection[str]
) -> None:
    """Raise `Misconfigured` when a state lacks the first records of one of `topics`.

    An operator may allow the lack, for one state or, by `truncated`, for every state.
    """
    for (topic, partition), begin in missing_beginnings(app, snapshots).items():
        required = topic in topics and topic not in truncated
        if required and begin > _allowed_before(topic, snapshots[partition].allowances):
            msg = (
                f"{topic}:{partition} begins at offset {begin}, and a state built from there lacks the records before: "
                f"restore Redis from a backup, or serve a state without them: {_allow(topic)}, or list the "
                f'topic in STREAMSTATE_TRUNCATED_TOPICS of streams and APIs, e.g. ["{topic}"]'
            )
            raise Misconfigured(msg)


def _allowed_before(topic: str, allowances: Mapping[str, Allowance]) -> int:
    return allowances[topic].before if topic in allowances else 0


def _allow(topic: str) -> str:
    return f"run `streamstate allow SERVICE {topic} --reason TEXT`"


def require_ends(states: Mapping[int, Claim | Snapshot], ends: Mapping[TopicPartition, int]) -> None:
    """Raise `Misconfigured` when a state has read further than its topics reach, by the end offsets `ends`."""
    for (topic, partition), end in ends.items():
        position = states[partition].positions.get(topic, 0)
        if position > end:
            msg = (
                f"{topic}:{partition} ends at offset {end}, and the state stands at {position}: Kafka has lost records "
                f"that were read, and the next ones would be skipped; restore the topic, or {REBUILD}"
            )
            raise Misconfigured(msg)


Origins = Mapping[str, Origin]
"""By topic."""


def require_same_topics(states: Collection[Origins], now: Origins) -> None:
    """Raise `Misconfigured` when one of `states` was built from topics other than `now`."""
    for topic, built_from in _each(states):
        if topic in now and built_from.id != now[topic].id:
            msg = (
                f"{topic} was deleted and made anew, and the state is of the old one's records; {REBUILD}. Or "
                "STREAMSTATE_KAFKA names another Kafka than the state's: correct it, and change nothing else"
            )
            raise Misconfigured(msg)
    require_same_widths(states, {topic: origin.partitions for topic, origin in now.items()})


def require_same_widths(states: Iterable[Origins], now: Mapping[str, int]) -> None:
    """Raise `Misconfigured` when the partition count of a topic in `now` differs from one of `states`."""
    for topic, built_from in _each(states):
        if built_from.partitions != now.get(topic, built_from.partitions):
            msg = (
                f"{topic} has {now[topic]} partitions and had {built_from.partitions} when the state was built: "
                "keys have moved to partitions that do not know their past; copy the records to a new topic of "
                f"{now[topic]} partitions, and build a state from it (STREAMSTATE_TOPICS, STREAMSTATE_NAME)"
            )
            raise Misconfigured(msg)


def require_copartitioned(app: App, now: Origins) -> None:
    """Raise `Misconfigured` where merged topics of a fold differ in their partition count."""
    for fold in app.folds:
        counts = {topic: now[topic].partitions for topic in fold.topics}
        if len(set(counts.values())) > 1:
            parts = " and ".join(f"{topic} has {count}" for topic, count in counts.items())
            msg = f"{app.name} merges topics that are not co-partitioned: {parts} partitions; make them equal"
            raise Misconfigured(msg)


def _each(states: Iterable[Origins]) -> Iterable[tuple[str, Origin]]:
    return (item for origins in states for item in origins.items())


_WAYS_OUT = f"go back to the release and settings that made it, or {REBUILD}"


def require_same_folds(app: App, topics: Collection[str], snapshots: Iterable[Snapshot]) -> None:
    """Raise `Misconfigured` when a state of `app` was made by folds of `topics` of another version or settings.

    A state of early releases, without stored declarations, is accepted.
    """
    for snapshot in snapshots:
        if snapshot.format not in (None, FORMAT):
            msg = f"the state of {app.name} has the format {snapshot.format}, and this release {FORMAT}; {_WAYS_OUT}"
            raise Misconfigured(msg)
        for topic in topics:
            declaration = app.declarations[topic]
            if (made_by := snapshot.folds.get(topic, declaration)) != declaration:
                msg = (
                    f"the state of {app.name} was made by another fold of {topic} than this release's "
                    f"({', '.join(differences(made_by, declaration))}); {_WAYS_OUT}"
                )
                raise Misconfigured(msg)


def differences(before: str, now: str) -> list[str]:
    """The members in which two texts of JSON differ, such as `measures.plays.over: "7d", now "30d"`.

    Texts of JSON within are compared by their members; other texts are shown whole. At most `MOST` members.
    """
    old, new = dict(_members(before)), dict(_members(now))
    if "" in old:
        return [f"{before}, now {now}"]
    different = [name for name in sorted({**old, **new}) if old.get(name) != new.get(name)]
    texts = [f"{name}: {old.get(name, 'absent')}, now {new.get(name, 'absent')}" for name in different[:MOST]]
    return [*texts, *(["…"] if len(different) > MOST else [])]


def _members(content: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(content, str) and content.startswith("{"):
        with suppress(msgspec.DecodeError):
            content = msgspec.json.decode(content)
    if isinstance(content, dict) and content:
        for name, inner in content.items():
            yield from _members(inner, f"{path}.{name}" if path else name)
    else:
        yield path, msgspec.json.encode(content).decode()


def passed(claim: Claim, snapshot: Snapshot, read: Mapping[str, Mapping[str, int]]) -> Commit | None:
    """The commit that advances the state over offsets without records; None when there are none.

    Only records advance a state: without the commit, the state would seem to lag for ever, and a first build would
    never be complete. `read` are the offsets before which all records are folded, in Spark's form: by topic and, as
    text, by partition.
    """
    ends = {topic: parts[str(claim.partition)] for topic, parts in read.items() if str(claim.partition) in parts}
    steps = [
        OffsetAdvance(topic, snapshot.positions.get(topic), end, snapshot.times.get(topic, 0))
        for topic, end in ends.items()
        if snapshot.positions.get(topic, 0) < end
    ]
    return Commit(claim, steps, []) if steps else None
