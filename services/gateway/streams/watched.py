"""A watched user: the answers of the profile, and the places of their reads."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import msgspec

from services.gateway.routing.directory import BESIDE, LocatedPart
from services.gateway.users import PARTS
from streamstate.state.store import Positions, TopicPartition, offsets_text
from streamstate.web.client.instances import Query
from streamstate.web.http.events import LatestEvent

EXPLAINED = ("explain", "true")

UNREAD = object()
"""The version of an unread answer."""

Place = tuple[str, Positions]
"""The release of an answer, and the positions of its partition."""


@dataclass(eq=False)
class Watched:
    """A user and part names (none: the default parts) with watching clients; `latest` is the profile.

    A *keyed* part is answered by the owner of the user's partition, a *drawn* part by any instance. Answers are JSON: a
    thousand decoded answers would be hundreds of thousands of objects for the garbage collector.

    answers: of the keyed parts by name; None for a user unknown to the part.
    places: the release and the positions of the user's partition at the reads of `answers`.
    versions: of `answers`, for parts with versions.
    changes: the number of changed answers since the creation.
    drawn: the answers of the drawn parts by name, possibly older; None before the first read.
    drawn_at, drawn_from: `changes` at the request of `drawn`, and the releases of its answers.
    unpublished: whether an answer has changed since the last profile.
    publishing, drawing: the tasks that publish the profile, and that read the drawn parts.
    """

    user: str
    names: frozenset[str]
    latest: LatestEvent = field(default_factory=LatestEvent)
    clients: int = 0
    answers: dict[str, bytes | None] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    changes: int = 0
    drawn: dict[str, bytes] | None = None
    drawn_at: int = 0
    drawn_from: Sequence[str] = ()
    unpublished: bool = False
    publishing: asyncio.Task[None] | None = None
    drawing: asyncio.Task[None] | None = None

    def replace(self, part: str, place: Place, answer: dict[str, Any] | None) -> bool:
        """Keep the answer of a keyed part, read at `place`; returns whether the answer has changed."""
        encoded = None if answer is None else msgspec.json.encode(answer)
        changed = part not in self.answers or self.answers[part] != encoded
        self.places[part], self.answers[part] = place, encoded
        self.changes += changed
        return changed

    @property
    def query(self) -> Query:
        """The query of a single read of the profile."""
        return [EXPLAINED, *((PARTS, name) for name in self.names)]

    @property
    def position(self) -> str:
        """The positions and releases of the keyed parts, and the changes since the request of the drawn parts.

        Profiles at the same position are equal.
        """
        behind = self.changes - self.drawn_at if self.drawn else 0
        places = [f"{offsets_text(at)}{_beside(of)}" for of, at in self.places.values()]
        drawn = [f"drawn{named}" for of in self.drawn_from if (named := _beside(of))]
        return "; ".join([*places, *drawn, *([f"{behind} behind"] if behind else [])])


def moved(part: LocatedPart, group: Iterable[Watched]) -> Sequence[Watched]:
    """The users of `group` whose partition or release has changed since the read of the part, by partition."""
    known, view, _ = part
    places = by_partition(known.positions)
    located = [(known.partition(view, watched.user), watched) for watched in group]
    late = [
        place for place in located if place[1].places.get(view.name) != (known.deployment, places.get(place[0], {}))
    ]
    return [watched for _, watched in sorted(late, key=itemgetter(0))]


def by_partition(positions: Positions) -> Mapping[int, Positions]:
    """`positions` by partition, without empty partitions."""
    places: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for place, offset in positions.items():
        if offset:
            places[place[1]][place] = offset
    return places


def _beside(deployment: str) -> str:
    """The release in a text, empty for the first release of a service."""
    _, beside, release = deployment.partition(BESIDE)
    return f" of {release}" if beside else ""
