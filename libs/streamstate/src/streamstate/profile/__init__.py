"""Profiles: measures of a key, declared over the fields of a topic's events.

A profile is a class whose members are measures, or a YAML file with the same words.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec

from streamstate.app import App, Fold, Source
from streamstate.profile.answer import Answer, ProfileView
from streamstate.profile.app import profile_app, profile_fold, profile_view
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import FieldWords
from streamstate.profile.fold import ProfileFold
from streamstate.profile.measure import EVER, Words
from streamstate.view import View

__all__ = [
    "EVER", "Profile", "count", "distinct", "first", "last", "least", "mean", "most", "recent", "sessions", "top",
    "total",
]  # fmt: skip

Over = str | Sequence[str]
Where = Mapping[str, Any]


def count(field: str = "all", *, by: str = "", where: Where | None = None, over: Over = EVER) -> Words:
    """The number of events, or of the events that have the field."""
    return _words(over, where, count=field, by=by)


def total(field: str, *, by: str = "", where: Where | None = None, over: Over = EVER) -> Words:
    """The sum of a field of numbers."""
    return _words(over, where, total=field, by=by)


def least(field: str, *, by: str = "", where: Where | None = None, over: Over = EVER) -> Words:
    """The least value of a field of numbers."""
    return _words(over, where, least=field, by=by)


def most(field: str, *, by: str = "", where: Where | None = None, over: Over = EVER) -> Words:
    """The greatest value of a field of numbers."""
    return _words(over, where, most=field, by=by)


def mean(field: str, *, by: str = "", where: Where | None = None, over: Over = EVER) -> Words:
    """The mean of a field of numbers."""
    return _words(over, where, mean=field, by=by)


def first(field: str, *, where: Where | None = None, over: Over = EVER) -> Words:
    """The first value of a field, by Kafka's timestamp, ties by offset."""
    return _words(over, where, first=field)


def last(field: str, *, where: Where | None = None, over: Over = EVER) -> Words:
    """The last value of a field, by Kafka's timestamp, ties by offset."""
    return _words(over, where, last=field)


def top(n: int, of: str, *, total: str = "", where: Where | None = None, over: Over = EVER) -> Words:
    """The `n` most frequent values of a field, or the values with the greatest total of another field."""
    return _words(over, where, top=n, of=of, total=total)


def distinct(field: str, *, where: Where | None = None, over: Over = EVER) -> Words:
    """The number of different values of a field."""
    return _words(over, where, distinct=field)


def recent(n: int, of: str, *, where: Where | None = None, over: Over = EVER) -> Words:
    """The last `n` values of a field, newest first."""
    return _words(over, where, recent=n, of=of)


def sessions(gap: str, *, over: Over, where: Where | None = None) -> Words:
    """The number of periods of events without a pause longer than `gap`."""
    return _words(over, where, sessions=gap)


def _words(over: Over, where: Where | None, **words: Any) -> Words:
    return Words(**words, where=dict(where or {}), over=over if isinstance(over, str) else list(over))


class Profile:
    """A profile: each member that is a measure is a member of the answer.

    The arguments of the class are the members of a `Declaration`; `name` is the class's name in small letters with
    hyphens, unless given. `declared` is the declaration, `app` the use case, of one fold and one view.
    """

    declared: ClassVar[Declaration]
    app: ClassVar[App]

    @classmethod
    def over(cls, source: Source[Any, Any], event: type[msgspec.Struct]) -> Fold:
        """The fold over the events of `source`, of the type `event`, whose members are the members of the fields."""
        members = {field.encode_name: field.name for field in msgspec.structs.fields(event)}
        attributes = {name: members[cls.declared.types[name].path] for name in cls.declared.fields}
        return profile_fold(cls.declared, source, ProfileFold(cls.declared, attributes))

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
        **words: Any,
    ) -> None:
        """Raises `BadDeclaration`."""
        measures = {member: words for member, words in vars(cls).items() if isinstance(words, Words)}
        own = name or re.sub(r"(?<=.)([A-Z])", r"-\1", cls.__name__).lower()
        summary = (cls.__doc__ or "").strip().partition("\n")[0].removesuffix(".")
        typed = msgspec.convert(dict(fields or {}), dict[str, str | FieldWords])
        cls.declared = Declaration(own, topic, key, path, measures, typed, **{"summary": summary, **words})
        cls.app = profile_app(cls.declared, service=own)
