"""A state made by other folds: further changes and reads by the present folds would be wrong."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.processing.topic_identity import REBUILD
from streamstate.state.store import FORMAT, Snapshot

MOST = 5
"""The most differences shown."""

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
