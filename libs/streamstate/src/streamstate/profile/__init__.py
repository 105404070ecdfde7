"""Profiles: measures of a key, declared over the fields of a topic's events.

A profile is a class whose members are measures, or a YAML file with the same words.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from streamstate.app import App, Effect, Fold, Source, no_effects
from streamstate.formats.event_times import EventTimes
from streamstate.keys import CODECS
from streamstate.operators.repeats import without_repeats
from streamstate.profile.answer import Answer, Moment, OverallView, Periods, ProfileView
from streamstate.profile.answer_type import AnswerType, Found, Spans
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import EventDecoder, FieldWords, event_attributes
from streamstate.profile.file import read
from streamstate.profile.fold import ProfileFold
from streamstate.profile.indexes.fold import IndexExpiry, IndexRemoval
from streamstate.profile.indexes.layout import indexes_of
from streamstate.profile.indexes.views import finders
from streamstate.profile.layout import NUMBERS, Layout
from streamstate.profile.measure import EVER, MeasureWords, require
from streamstate.profile.numbers import COUNT, other_name
from streamstate.profile.rekeying import rekeyed, rekeying
from streamstate.profile.rules.crossings import CrossingRemoval, crossing_views, expired
from streamstate.profile.rules.fold import RuleReads, derived
from streamstate.profile.rules.rule import RuleWords
from streamstate.state.operations import Field, Operation, Read
from streamstate.view import EXPLORE, READ, Part, UserState, View

__all__ = [
    "EVER",
    "Found",
    "Profile",
    "Spans",
    "count",
    "distinct",
    "first",
    "last",
    "least",
    "mean",
    "most",
    "other_name",
    "profile_app",
    "read",
    "recent",
    "sessions",
    "top",
    "total",
]  # fmt: skip

Over = str | Sequence[str]
Where = Mapping[str, Any]


def count(
    field: str = "all",
    *,
    by: str = "",
    every: str = "",
    where: Where | None = None,
    over: Over = EVER,
    index: bool = False,
    values: int = 0,
) -> MeasureWords:
    """The number of events (`all`), or of the events that have the field."""
    return _words(over, where, count=field, by=by, every=every, index=index, values=values)


def total(
    field: str,
    *,
    by: str = "",
    every: str = "",
    where: Where | None = None,
    over: Over = EVER,
    index: bool = False,
    values: int = 0,
) -> MeasureWords:
    """The sum of a field of numbers."""
    return _words(over, where, total=field, by=by, every=every, index=index, values=values)


def least(field: str, *, by: str = "", where: Where | None = None, over: Over = EVER, values: int = 0) -> MeasureWords:
    """The least value of a field of numbers."""
    return _words(over, where, least=field, by=by, values=values)


def most(field: str, *, by: str = "", where: Where | None = None, over: Over = EVER, values: int = 0) -> MeasureWords:
    """The greatest value of a field of numbers."""
    return _words(over, where, most=field, by=by, values=values)


def mean(field: str, *, by: str = "", where: Where | None = None, over: Over = EVER, values: int = 0) -> MeasureWords:
    """The mean of a field of numbers."""
    return _words(over, where, mean=field, by=by, values=values)


def first(field: str, *, where: Where | None = None, over: Over = EVER) -> MeasureWords:
    """The first value of a field, by Kafka's timestamp, ties by offset."""
    return _words(over, where, first=field)


def last(field: str, *, where: Where | None = None, over: Over = EVER) -> MeasureWords:
    """The last value of a field, by Kafka's timestamp, ties by offset."""
    return _words(over, where, last=field)


def top(
    n: int, of: str, *, total: str = "", where: Where | None = None, over: Over = EVER, values: int = 0
) -> MeasureWords:
    """The `n` most frequent values of a field, or the values with the greatest total of another field."""
    return _words(over, where, top=n, of=of, total=total, values=values)


def distinct(field: str, *, where: Where | None = None, over: Over = EVER, values: int = 0) -> MeasureWords:
    """The number of different values of a field."""
    return _words(over, where, distinct=field, values=values)


def recent(n: int, of: str, *, where: Where | None = None, over: Over = EVER) -> MeasureWords:
    """The last `n` values of a field, newest first."""
    return _words(over, where, recent=n, of=of)


def sessions(gap: str, *, over: Over, where: Where | None = None) -> MeasureWords:
    """The number of periods of events without a pause longer than `gap`, such as `30m`."""
    return _words(over, where, sessions=gap)


def _words(over: Over, where: Where | None, **words: Any) -> MeasureWords:
    return MeasureWords(**words, where=dict(where or {}), over=over if isinstance(over, str) else list(over))


SERVICE = "profile"
"""The service that runs a declaration of a file."""


def profile_app(declared: Declaration, service: str = SERVICE) -> App:
    """The use case of a declaration. Raises `BadDeclaration`."""
    declared.require_valid()
    attributes = event_attributes(declared.fields)
    fields = [(attributes[name], declared.types[name]) for name in declared.fields]
    times = {attribute: (of.path, of.unit) for attribute, of in fields if of.unit}
    source: Source[Any, Any] = Source(
        declared.keyed_topic,
        CODECS[declared.key_type],
        EventDecoder([declared.types[name] for name in declared.fields], declared.selection),
        requires_beginning=any(measure.ever for measure in declared.resolved),
        times=EventTimes(times) if times else None,
        partitioner=declared.partitioner,
    )
    fold = profile_fold(declared, source, ProfileFold(declared, attributes))
    view = profile_view(declared, OverallView(declared) if declared.everywhere else ProfileView(declared))
    views = view, *finders(declared), *crossing_views(declared)
    folds = (without_repeats(fold), rekeying(declared)) if declared.key_field else (fold,)
    emits = derived(declared) | rekeyed(declared)
    variables = {SERVICE.upper(): msgspec.json.encode(declared).decode()} if service == SERVICE else {}
    return App(declared.name, folds, views, emits=emits, service=service, variables=variables)


def profile_fold(
    declared: Declaration, source: Source[Any, Any], apply: ProfileFold, overall: ProfileFold | None = None
) -> Fold:
    """The fold of a declaration over `source`; `overall` adds the state of a profile over all keys."""
    indexes = indexes_of(declared)
    users = UserState(Layout(declared).places, *_removal(declared)) if declared.of_users else None
    expiries: list[Any] = [IndexExpiry(indexes)] if any(index.window for index in indexes) else []
    expiries += [expired] if declared.rules else []
    expiries += [overall] if overall else []
    shared = partial(_together, expiries) if expiries else no_effects
    reads: Any = {"reads": RuleReads(declared)} if declared.rules else {}
    settings = {"profile": declared.state} | ({"overall": overall.declared.state} if overall else {})
    return Fold((source,), apply, settings=settings, users=users, shared=shared, **reads)


def _together(folds: Sequence[Any], *given: Any) -> Iterable[Effect]:
    return chain.from_iterable(fold(*given) for fold in folds)


def _removal(declared: Declaration) -> tuple[Sequence[Read], Any]:
    """The reads and the rewrite of a `UserState`: indexes and kept crossings."""
    indexes, crossings = IndexRemoval(indexes_of(declared)), CrossingRemoval(declared)
    border = len(indexes.reads)

    def rewrite(users: Collection[Any], values: Sequence[Any]) -> Iterable[Operation]:
        yield from indexes(users, values[:border])
        yield from crossings(users, values[border:])

    return [*indexes.reads, *crossings.reads], rewrite


def profile_view(declared: Declaration, view: ProfileView | OverallView) -> View[Any]:
    """The view of a declaration."""
    layout, codec = Layout(declared), CODECS[declared.key_type]
    everywhere = declared.everywhere
    return View(
        name=declared.name,
        path=declared.path,
        summary=declared.summary or f"The profile {declared.name}",
        topic=declared.keyed_topic,
        key=None if everywhere else codec,
        reads=view.reads,
        answer=view.answer,
        example=AnswerType(declared).example,
        query=_query(declared),
        part=Part(nested=True, parameters=("at",) if declared.windows else ()) if declared.part else UNSET,
        scope=EXPLORE if everywhere else READ,
        version=None if everywhere else lambda key: Field(layout.state_key(NUMBERS, key), COUNT),
        profile=msgspec.to_builtins(declared),
    )


def _query(declared: Declaration) -> type[Moment] | None:
    if any(measure.every_ms for measure in declared.resolved):
        return Periods
    return Moment if declared.windows else None


class Profile:
    """A profile: each member that is a measure is a member of the answer.

    The arguments of the class are the members of a `Declaration`; `name` is the class's name in small letters with
    hyphens, unless given. `declared` is the declaration, `app` the use case, of one fold and one view.
    """

    declared: ClassVar[Declaration]
    app: ClassVar[App]

    @classmethod
    def over(
        cls, source: Source[Any, Any], event: type[msgspec.Struct], overall: "type[Profile] | None" = None
    ) -> Fold:
        """The fold over the events of `source`, of the type `event`, whose members are the members of the fields.

        overall: a profile over all keys of the same events, whose state is kept beside. Raises `BadDeclaration` for a
            declaration with `where`, or a key from the value: the source decides about its records.
        """
        require(not cls.declared.where, "a profile over the source of a service has no where", "where")
        require(not cls.declared.key_field, "a profile over the source of a service has the source's key", "key")
        members = {field.encode_name: field.name for field in msgspec.structs.fields(event)}

        def fold(declared: Declaration) -> ProfileFold:
            return ProfileFold(declared, {name: members[declared.types[name].path] for name in declared.fields})

        return profile_fold(cls.declared, source, fold(cls.declared), fold(overall.declared) if overall else None)

    @classmethod
    def answered_by(cls, answer: Answer, **members: Any) -> View[Any]:
        """The view with answers that `answer` makes, and further `members` of the view, such as its example."""
        return replace(profile_view(cls.declared, ProfileView(cls.declared, answer)), **members)

    def __init_subclass__(
        cls,
        *,
        topic: str,
        path: str,
        key: str = "long",
        name: str = "",
        fields: Mapping[str, Any] | None = None,
        rules: Mapping[str, Any] | None = None,
        **words: Any,
    ) -> None:
        """Raises `BadDeclaration`."""
        measures = {member: words for member, words in vars(cls).items() if isinstance(words, MeasureWords)}
        own = name or re.sub(r"(?<=.)([A-Z])", r"-\1", cls.__name__).lower()
        summary = (cls.__doc__ or "").strip().partition("\n")[0].removesuffix(".")
        typed = msgspec.convert(dict(fields or {}), dict[str, str | FieldWords])
        lines = msgspec.convert(dict(rules or {}), dict[str, RuleWords])
        cls.declared = Declaration(own, topic, key, path, measures, typed, lines, **{"summary": summary, **words})
        cls.app = profile_app(cls.declared, service=own)
