"""Offsets without records at the end of a partition: transaction markers, aborted and deleted records."""

from collections.abc import Mapping

from streamstate.state.store import Claim, Commit, OffsetAdvance, Snapshot


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
