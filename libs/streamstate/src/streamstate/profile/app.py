"""The app of a profile: its source, its fold and its view."""

from typing import Any

from msgspec import UNSET

from streamstate.app import App, Fold, Source
from streamstate.keys import CODECS
from streamstate.profile.answer import Moment, ProfileView
from streamstate.profile.answer_type import AnswerType
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import EventDecoder
from streamstate.profile.fold import ProfileFold
from streamstate.profile.layout import COUNT, NUMBERS, Layout
from streamstate.state.operations import Field
from streamstate.view import EXPLORE, READ, Part, UserState, View

SERVICE = "profile"
"""The service that runs a declaration of a file."""


def profile_app(declared: Declaration, service: str = SERVICE) -> App:
    """The use case of a declaration. Raises `BadDeclaration`."""
    declared.require_valid()
    fields = [declared.types[name] for name in declared.fields]
    source: Source[Any, Any] = Source(
        declared.topic,
        CODECS[declared.key],
        EventDecoder(fields),
        requires_beginning=any(measure.ever for measure in declared.resolved),
    )
    attributes = {name: f"f{index}" for index, name in enumerate(declared.fields)}
    fold = profile_fold(declared, source, ProfileFold(declared, attributes))
    view = profile_view(declared, ProfileView(declared))
    return App(name=declared.name, service=service, folds=(fold,), views=(view,))


def profile_fold(declared: Declaration, source: Source[Any, Any], apply: ProfileFold) -> Fold:
    """The fold of a declaration over `source`."""
    users = UserState(Layout(declared).places) if declared.of_users else None
    return Fold((source,), apply, settings={"profile": declared.state}, users=users)


def profile_view(declared: Declaration, view: ProfileView) -> View[Any]:
    """The view of a declaration."""
    layout, codec = Layout(declared), CODECS[declared.key]
    everywhere = declared.everywhere
    return View(
        name=declared.name,
        path=declared.path,
        summary=declared.summary or f"The profile {declared.name}",
        topic=declared.topic,
        key=None if everywhere else codec,
        reads=view.reads,
        answer=view.merged if everywhere else view.answer,
        example=AnswerType(declared).example,
        query=Moment if declared.windows else None,
        part=Part(nested=True, parameters=("at",) if declared.windows else ()) if declared.part else UNSET,
        scope=EXPLORE if everywhere else READ,
        version=None if everywhere else lambda key: Field(layout.of_key(NUMBERS, key), COUNT),
    )
