"""Logs that were cut before or after a state was built from them: it cannot be exact, so an operator has to decide."""

from collections.abc import Collection, Mapping

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.processing.topic_identity import rebuild
from streamstate.state.store import Claim, Commit, OffsetAdvance, Snapshot, TopicPartition

LOST = "lost_records"


def left_out(claim: Claim, begins: Mapping[str, int]) -> Commit | None:
    """The commit that goes on where the topics begin now, and counts what it passes over; None when nothing is lost.

    `begins` are the first offsets that Kafka still has, by topic. Where nothing is stored yet, nothing can be missed.
    """
    steps = [
        OffsetAdvance(topic, stored, begins[topic], claim.times.get(topic, 0))
        for topic, stored in claim.positions.items()
        if stored < begins.get(topic, 0)
    ]
    lost = sum(step.next - (step.expected or 0) for step in steps)
    return Commit(claim, steps, [], {LOST: lost}) if lost else None


def refusal(commit: Commit) -> Misconfigured:
    """The error that names what `commit` leaves out."""
    partition = commit.claim.partition
    parts = [
        f"{step.next - (step.expected or 0)} records of {step.topic}:{partition} from offset {step.expected}"
        for step in commit.steps
    ]
    return Misconfigured(
        f"Kafka deleted {' and '.join(parts)} before they were read; bring them back, or set "
        "STREAMSTATE_LOST_RECORDS=skip to go on without them"
    )


def missing_beginnings(app: App, snapshots: Mapping[int, Snapshot]) -> dict[TopicPartition, int]:
    """The offsets at which the states in `snapshots` begin, of the topics whose earlier records they lack."""
    return {
        (topic, partition): begin
        for partition, snapshot in snapshots.items()
        for topic, begin in snapshot.begins.items()
        if begin > 0 and topic in app.requiring_beginning
    }


def require_beginnings(
    app: App, topics: Collection[str], snapshots: Mapping[int, Snapshot], truncated: Collection[str]
) -> None:
    """Raise `Misconfigured` when a state lacks the first records of one of `topics`, unless it is in `truncated`."""
    for (topic, partition), begin in missing_beginnings(app, snapshots).items():
        if topic in topics and topic not in truncated:
            msg = (
                f"{topic}:{partition} begins at offset {begin}, and a state built from there lacks the records before: "
                "restore Redis from a backup, or, to serve a state without them, list the topic in "
                f'STREAMSTATE_TRUNCATED_TOPICS of streams and APIs, e.g. ["{topic}"]'
            )
            raise Misconfigured(msg)


def require_ends(app: App, states: Mapping[int, Claim | Snapshot], ends: Mapping[TopicPartition, int]) -> None:
    """Raise `Misconfigured` when a state has read further than its topics reach, by the end offsets `ends`."""
    for (topic, partition), end in ends.items():
        position = states[partition].positions.get(topic, 0)
        if position > end:
            msg = (
                f"{topic}:{partition} ends at offset {end}, and the state stands at {position}: Kafka has lost records "
                f"that were read, and the next ones would be skipped; restore the topic, or {rebuild(app.name)}"
            )
            raise Misconfigured(msg)
