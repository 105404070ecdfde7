"""Logs truncated before or after a state was built from them: the state cannot be exact, so an operator decides."""

from collections.abc import Collection, Iterable, Mapping

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.processing.topic_identity import REBUILD
from streamstate.state.store import Allowance, Claim, Commit, OffsetAdvance, Snapshot, TopicPartition

LOST = "lost_records"


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
