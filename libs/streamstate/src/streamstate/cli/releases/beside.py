"""The releases of a service as a command sees them: the record, their states, the gateway's view of them."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import typer

from streamstate.cli.services import Deployment, deployment, gateway
from streamstate.cli.status import readable
from streamstate.cli.users.partitions import SYSTEM
from streamstate.errors import Declined
from streamstate.kafka.admin import Member
from streamstate.kafka.presence import statuses
from streamstate.processing.decode import reasons
from streamstate.releases.contract import broken
from streamstate.releases.record import Releases
from streamstate.state.store import Snapshot, TopicPartition
from streamstate.web.http.demands import MIN_POSITION
from streamstate_client import Reply, Unavailable

RELEASE = "X-Release"
"""The header of a request for the answer of a release that is not live."""

DOCUMENT, MAP = "/openapi.json", "/processors"

PATIENCE_S, PAUSE_S = 5.0, 0.2
"""Seconds until a gateway without an answer is an error, and between two requests."""

SHOWN = 10
"""The most differences below a message."""

MOST_LAG = 10_000
"""Records of a service behind which a complete state is `lagging`."""

Name = Annotated[str, typer.Argument(metavar="RELEASE", help="Release; default: the only other release.")]
WithoutGateway = Annotated[
    bool, typer.Option("--without-gateway", help="Do not ask whether the gateway finds the release.")
]
Breaking = Annotated[bool, typer.Option("--breaking", help="Accept answers that break clients of the live release.")]
Word = Literal["ready", "starting", "building", "lagging", "failing"]


class ReleaseReport(msgspec.Struct):
    """A release. `live`: the gateway answers from it. `publishes`: the outputs of new records are its own.

    `state` is `ready`, `starting` (no stream has run yet), `building` from nothing (with `progress`, 0 to 1),
    `lagging`, or `failing` with `faults`. `lag` is in records. `owes` are offsets whose outputs it has to publish
    before the next publisher begins, by topic:partition. `refused` are its dead letters by stage and exception, of
    which a staged release publishes none.
    """

    release: str
    live: bool
    publishes: bool
    state: Word
    progress: float
    lag: int
    owes: dict[str, int]
    faults: list[str]
    refused: dict[str, int]


@dataclass(frozen=True)
class Side:
    """A release: its deployment, readable partitions, and the members of its consumer group."""

    of: Deployment
    snapshots: Mapping[int, Snapshot]
    members: Mapping[str, Member]
    ends: Mapping[TopicPartition, int]
    faults: Sequence[str]

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offsets of all partitions, 0 without a stored offset."""
        return {
            (topic, p): self.snapshots[p].positions.get(topic, 0) if p in self.snapshots else 0
            for topic, p in self.ends
        }

    @property
    def lag(self) -> int:
        return sum(max(0, self.ends[place] - at) for place, at in self.positions.items())

    @property
    def ready(self) -> bool:
        """Whether each partition is complete."""
        wanted = {partition for _, partition in self.ends}
        done = {p for p, snapshot in self.snapshots.items() if snapshot.ready(self.of.app.topics)}
        return wanted <= done

    @property
    def progress(self) -> float:
        shares = [self.snapshots[p].progress(self.of.app.topics) for _, p in self.ends if self._owned(p)]
        return sum(shares) / len(self.ends) if self.ends else 0.0

    @property
    def refused(self) -> Counter[str]:
        """Dead letters by stage and exception."""
        return sum((Counter(reasons(snapshot.counters)) for snapshot in self.snapshots.values()), Counter())

    def _owned(self, partition: int) -> bool:
        return partition in self.snapshots and self.snapshots[partition].owner is not None

    @property
    def started(self) -> bool:
        """Whether a stream runs or has run, by the consumer group and by the owners of the state."""
        return bool(self.members) or any(map(self._owned, self.snapshots))

    @property
    def word(self) -> Word:
        if not (self.faults or self.started):
            return "starting"
        if self.faults or not self.members:
            return "failing"
        if not self.ready:
            return "building"
        return "lagging" if self.lag > MOST_LAG else "ready"


def present(service: str) -> tuple[Deployment, Releases | None]:
    """The deployment of `service` in this environment, and the record of its releases."""
    of = deployment(service)
    return of, of.pointer.read()


def recorded(service: str) -> tuple[Deployment, Releases]:
    """The same; raises `Declined` for a service with a single release."""
    of, record = present(service)
    if record is None:
        msg = (
            f"{of.app.release_of} has no release beside it; `streamstate stage {service}` makes one, and after a loss "
            f"of the record `streamstate adopt {service} RELEASE`"
        )
        raise Declined(msg)
    return of, record


def places(of: Deployment) -> list[TopicPartition]:
    """All partitions of the topics that the service reads."""
    return [(topic, p) for topic in of.app.topics for p in range(of.topics.partitions(topic))]


def look(of: Deployment, name: str) -> Side:
    """The release `name` at present. Raises `Misconfigured` for a lost record of the releases."""
    release = of.release(name)
    ends = of.topics.ends(places(of))
    snapshots, faults = readable(release.store, name, sorted({partition for _, partition in ends}))
    of.pointer.require_kept(max((snapshot.record for snapshot in snapshots.values()), default=0))
    members = of.topics.members(release.app.group)
    troubles = release.store.troubles(statuses(members))
    faults += [f"{instance} does not fold: {text}" for instance, text in troubles.items() if text]
    side = Side(release, snapshots, members, ends, faults)
    if not members and side.started:
        faults.append(f"no stream runs in the consumer group {release.app.group}; start it, or drop the release")
    return side


def report(record: Releases, side: Side) -> ReleaseReport:
    name = side.of.app.name
    owes = {f"{topic}:{p}": count for (topic, p), count in record.owes(name, side.positions).items()}
    live, publishes = record.live == name, record.publisher == name
    return ReleaseReport(
        name, live, publishes, side.word, side.progress, side.lag, owes, list(side.faults), dict(side.refused)
    )


def refused_more(side: Side, live: Side) -> list[str]:
    """The dead letters that a release has more of than the live release, a line for each stage and exception."""
    names = f"{side.of.app.name} refuses {{:,}} more records than {live.of.app.name}: {{}}"
    return [names.format(count, reason) for reason, count in (side.refused - live.refused).items()]


def ask(path: str, release: str = "", after: str = "") -> Reply:
    """The gateway's answer, of `release` if given, of a state at the position `after` at least.

    Repeated for a while without an answer: a gateway may restart, or a state be behind.
    """
    headers = {name: value for name, value in ((RELEASE, release), (MIN_POSITION, after)) if value}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return gateway().reply(path, headers)
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def breaking(name: str) -> list[str]:
    """How the answers' form of the release breaks clients of the live release, by the gateway's documents."""
    asked = gateway()
    return differences(asked.get(DOCUMENT), asked.get(DOCUMENT, headers={RELEASE: name}))


def differences(before: Any, after: Any) -> list[str]:
    """How the document `after` breaks clients of `before`."""
    return broken(_answers(before), _answers(after))


def require_unbroken(name: str, lines: Sequence[str]) -> None:
    """Raise `Declined` for a release that breaks clients by the differences in `lines`."""
    if lines:
        error = Declined(f"{name} breaks clients in {len(lines)} places; accept the breaks by --breaking")
        for line in lines[:SHOWN]:
            error.add_note(line)
        if len(lines) > SHOWN:
            error.add_note(f"… and {len(lines) - SHOWN} more")
        raise error


def _answers(document: Any) -> dict[str, Any]:
    """The document without the maps of releases: each release has a path of its own."""
    paths = {path: item for path, item in document["paths"].items() if not path.endswith(MAP)}
    return {**document, "paths": paths}


def seen_by_gateway(name: str) -> dict[str, Any] | None:
    """The release in the gateway's state of the system, None where the gateway does not know it."""
    services: list[dict[str, Any]] = ask(SYSTEM).value["services"]
    return next((of for of in services if of["release"] == name), None)
