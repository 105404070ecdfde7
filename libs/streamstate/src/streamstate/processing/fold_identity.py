"""A state made by other folds: further changes and reads by the present folds would be wrong."""

from collections.abc import Collection, Iterable

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.processing.topic_identity import REBUILD
from streamstate.state.store import FORMAT, Snapshot

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
                    f"the state of {app.name} was made by the fold {made_by} of {topic}, and this release has the fold "
                    f"{declaration}; {_WAYS_OUT}"
                )
                raise Misconfigured(msg)
