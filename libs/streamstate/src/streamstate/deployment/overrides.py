"""An app under another name and over other topics, so that it can be deployed more than once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from streamstate.app import App, Source, View
from streamstate.errors import Misconfigured

T = TypeVar("T", Source[Any, Any], View[Any])


def renamed(app: App, name: str, topics: Mapping[str, str]) -> App:
    """`app` as `name` (its own when empty), reading the topics that `topics` names instead of its own.

    Raises `Misconfigured` for a topic that the app does not read, or that its folds know by name: a table that is
    looked up, or one of several that are merged.
    """
    if strange := sorted(set(topics) - set(app.topics)):
        msg = f"{app.name} does not read {', '.join(strange)}; it reads {', '.join(app.topics)}"
        raise Misconfigured(msg)
    merged = {topic for fold in app.folds if len(fold.sources) > 1 for topic in fold.topics}
    if known := sorted(set(topics) & ({*app.tables} | merged)):
        msg = f"{app.name} refers to {', '.join(known)} by name, so TOPICS cannot rename it"
        raise Misconfigured(msg)
    return replace(
        app,
        name=name or app.name,
        folds=tuple(
            replace(fold, sources=tuple(_over(source, topics) for source in fold.sources)) for fold in app.folds
        ),
        views=tuple(_over(view, topics) for view in app.views),
    )


def _over(reader: T, topics: Mapping[str, str]) -> T:
    return replace(reader, topic=topics.get(reader.topic or "", reader.topic))
