"""Recent plays with names: which names they need, and where they go."""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from services.events import KINDS, ListeningEvent
from services.gateway.names import Names, Thing
from services.names.model import EnrichedEvent, RecentPlays, enrich


class Recent(msgspec.Struct, rename="camel"):
    """A user's most recent plays, newest first. `warnings` is there when names could not be had, and says why."""

    user_id: int
    recent: list[EnrichedEvent]
    warnings: list[str] | UnsetType = UNSET


def things(plays: RecentPlays) -> list[Thing]:
    """What has a name in `plays`: (kind, id)."""
    return list(dict.fromkeys(thing for event in plays.recent for thing in _things(event)))


def named(plays: RecentPlays, names: Names, warnings: list[str]) -> Recent:
    """`plays` with their names."""
    events = [enrich(event, map(names.get, _things(event))) for event in plays.recent]
    return Recent(plays.user_id, events, warnings or UNSET)


def _things(event: ListeningEvent) -> Iterable[Thing]:
    return zip(KINDS, event.ids(), strict=True)
