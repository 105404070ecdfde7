"""One app deployed twice: each deployment with a name of its own, over topics of its own."""

from collections.abc import Mapping
from dataclasses import replace

from streamstate.app import App
from streamstate.errors import Misconfigured


def renamed(app: App, name: str, topics: Mapping[str, str]) -> App:
    """`app` as `name` (its own when empty), reading the topics that `topics` names instead of its own.

    Raises `Misconfigured` for a topic that the app does not read, or keeps as a table: folds know tables by name.
    """
    if strange := sorted(set(topics) - set(app.topics)):
        msg = f"{app.name} does not read {', '.join(strange)}; it reads {', '.join(app.topics)}"
        raise Misconfigured(msg)
    if tables := sorted(set(topics) & set(app.tables)):
        msg = f"{app.name} looks up {', '.join(tables)}, which cannot be another topic"
        raise Misconfigured(msg)
    return replace(
        app,
        name=name or app.name,
        sources=tuple(replace(one, topic=topics.get(one.topic, one.topic)) for one in app.sources),
        views=tuple(replace(one, topic=topics.get(one.topic, one.topic)) for one in app.views),
    )
