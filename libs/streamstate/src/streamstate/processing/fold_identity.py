"""A state that other folds have made: what these folds add to it, or read in it, would be wrong."""

from collections.abc import Collection, Iterable

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.processing.topic_identity import REBUILD
from streamstate.state.store import FORMAT, Snapshot

_WAYS_OUT = f"go back to the release and settings that made it, or {REBUILD}"


def require_same_folds(app: App, topics: Collection[str], snapshots: Iterable[Snapshot]) -> None:
    """Raise `Misconfigured` when the folds of `topics` have another version or other settings than a state of `app`.

    A state that does not say what made it, since it is from before that was kept, is taken for one of these folds.
    """
    for snapshot in snapshots:
        if snapshot.format not in (None, FORMAT):
            msg = f"the state of {app.name} has the format {snapshot.format}, and this release {FORMAT}; {_WAYS_OUT}"
            raise Misconfigured(msg)
        for topic in topics:
            declaration = app.declarations[topic]
            if (made_by := snapshot.folds.get(topic, declaration)) != declaration:
                msg = (
                    f"the state of {app.name} was made by the fold {made_by} of {topic}, and this release has the fold "
                    f"{declaration}; {_WAYS_OUT}"
                )
                raise Misconfigured(msg)
