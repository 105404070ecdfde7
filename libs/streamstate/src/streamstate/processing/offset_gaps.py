"""Offsets without records at the end of a partition: markers of transactions, what was aborted, what is deleted."""

from collections.abc import Mapping

from streamstate.state.store import Claim, Commit, OffsetAdvance, Snapshot


def passed(claim: Claim, snapshot: Snapshot, read: Mapping[str, Mapping[str, int]]) -> Commit | None:
    """The commit that brings the state to where everything was read; None when it stands there.

    Only records move a state: without this commit it would seem to lag for ever, and one built from nothing would never
    be complete. `read` are the offsets before which all records are folded, in Spark's form: by topic and, as text, by
    partition.
    """
    ends = {topic: parts[str(claim.partition)] for topic, parts in read.items() if str(claim.partition) in parts}
    steps = [
        OffsetAdvance(topic, snapshot.positions.get(topic), end, snapshot.times.get(topic, 0))
        for topic, end in ends.items()
        if snapshot.positions.get(topic, 0) < end
    ]
    return Commit(claim, steps, []) if steps else None
