"""An app under another name and over other topics, so that it can be deployed more than once."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from streamstate.app import App, Source, Totals, dead_letter_topic
from streamstate.errors import Misconfigured
from streamstate.view import View

T = TypeVar("T", Source[Any, Any], View[Any], Totals)


def renamed(app: App, name: str, topics: Mapping[str, str], group: str = "", release_of: str = "") -> App:
    """`app` as `name` (empty: its own name) in the consumer group `group` (empty: the app's name).

    It reads and writes the values of `topics` instead of the keys; its folds see no difference. A release of
    `release_of` writes into that release's topics, in turns.

    Raises `Misconfigured` for a topic that the app does not have, for one name of two of its topics, and where two
    other deployments would write into one topic.
    """
    name = name or app.name
    outputs = (*app.emits, *(totals.topic for totals in app.totals))
    own = (*app.topics, *outputs, dead_letter_topic(app.name))
    if strange := sorted(set(topics) - set(own)):
        msg = f"{app.name} has no topic {', '.join(strange)}; it has {', '.join(own)}: correct TOPICS"
        raise Misconfigured(msg)
    if twice := [topic for topic, times in Counter(topics.get(topic, topic) for topic in own).items() if times > 1]:
        msg = f"TOPICS names {', '.join(twice)} for several topics of {app.name}; each needs its own"
        raise Misconfigured(msg)
    beside = name != app.name and not release_of
    if beside and (shared := [topic for topic in outputs if topics.get(topic, topic) == topic]):
        example = json.dumps({topic: f"{name}-{topic}" for topic in shared})
        msg = f"{name} would write into topics of {app.name}: name others in TOPICS, such as {example}"
        raise Misconfigured(msg)
    written = {topic: topics[topic] for topic in app.emits if topic in topics}
    if dead_letters := topics.get(dead_letter_topic(app.name), release_of and dead_letter_topic(release_of)):
        written[dead_letter_topic(name)] = dead_letters
    return replace(
        app,
        name=name,
        release_of=release_of or name,
        group=group or name,
        folds=tuple(
            replace(fold, sources=tuple(_over(source, topics) for source in fold.sources)) for fold in app.folds
        ),
        views=tuple(_over(view, topics) for view in app.views),
        totals=tuple(_over(totals, topics) for totals in app.totals),
        written=written,
    )


def _over(reader: T, topics: Mapping[str, str]) -> T:
    return replace(reader, topic=topics.get(reader.topic or "", reader.topic))
