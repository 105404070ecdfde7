"""An app as deployed: under another name, over other topics, with bounds of the times that events name."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar

from pydantic import Field

from streamstate.app import App, Fold, Source, Totals, dead_letter_topic
from streamstate.deployment.connections import Settings
from streamstate.errors import Misconfigured
from streamstate.formats.event_times import DAY_MS, EventTimes
from streamstate.view import View

T = TypeVar("T", Source[Any, Any], View[Any], Totals)


class EventTimeSettings(Settings):
    """Bounds of events' own times."""

    event_ahead_ms: int = Field(
        DAY_MS,
        ge=0,
        le=2**53,
        description="most time after Kafka's timestamp",
    )
    event_behind_ms: int | None = Field(
        None,
        ge=0,
        le=2**53,
        description="most time before Kafka's timestamp; empty: no bound",
    )
    event_beyond: Literal["refuse", "clamp"] = Field(
        "refuse",
        description="an event out of bounds is a dead letter, or its time becomes the bound (clamp)",
    )


def bounded(app: App, settings: EventTimeSettings) -> App:
    """`app` with the bounds of `settings`, which are part of the folds' settings unless they are the defaults."""
    return replace(app, folds=tuple(_bounded(fold, settings) for fold in app.folds))


def _bounded(fold: Fold, settings: EventTimeSettings) -> Fold:
    given = settings.event_ahead_ms, settings.event_behind_ms, settings.event_beyond == "clamp"
    sources = tuple(
        replace(source, times=EventTimes(source.times.members, *given))
        if isinstance(source.times, EventTimes)
        else source
        for source in fold.sources
    )
    if sources == fold.sources:
        return fold
    kind = EventTimeSettings
    own = {name: getattr(settings, name) for name in kind.model_fields}
    changed = {name: value for name, value in own.items() if value != kind.model_fields[name].default}
    return replace(fold, sources=sources, settings={**fold.settings, **changed})


def renamed(app: App, name: str, topics: Mapping[str, str], group: str = "", release_of: str = "") -> App:
    """`app` as `name` (empty: its own name) in the consumer group `group` (empty: the app's name).

    It reads and writes the values of `topics` instead of the keys; its folds see no difference. A release of
    `release_of` writes into that release's topics, in turns.

    Raises `Misconfigured` for a topic that the app does not have, for one name of two of its topics, and where two
    other deployments would write into one topic.
    """
    name = name or app.name
    outputs = (*app.emits, *(totals.topic for totals in app.totals))
    own = dict.fromkeys((*app.topics, *outputs, dead_letter_topic(app.name)))
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
