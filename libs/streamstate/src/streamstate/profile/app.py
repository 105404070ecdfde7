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
    layout, view, codec = Layout(declared), ProfileView(declared), CODECS[declared.key]
    fields = {name: of for name, of in declared.types.items() if name in declared.fields}
    source: Source[Any, Any] = Source(
        declared.topic,
        codec,
        EventDecoder(fields),
        requires_beginning=any(measure.ever for measure in declared.resolved),
    )
    users = UserState(layout.places) if declared.of_users else None
    fold = Fold((source,), ProfileFold(declared), settings={"profile": declared.state}, users=users)
    everywhere = declared.everywhere
    return App(
        name=declared.name,
        service=service,
        folds=(fold,),
        views=(
            View(
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
            ),
        ),
    )
