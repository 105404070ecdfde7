"""Records that Kafka deleted before they were read: the state can never be exact again, so somebody has to be told."""

from collections.abc import Mapping

from streamstate.errors import Misconfigured
from streamstate.state.store import Claim, Commit, OffsetAdvance

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
