"""The map of a service: who owns which partition, and what can be asked. The gateway lives on it."""

from collections import defaultdict
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from streamstate.app import App
from streamstate.deployment.address import Address
from streamstate.errors import Misconfigured
from streamstate.gateway import ADMIN, READ, Cost, NamedIds, Part, Scope
from streamstate.processing.decode import DEAD, reasons
from streamstate.state.store import Snapshot
from streamstate.web.freshness import Freshness
from streamstate.web.http.problems import Problem
from streamstate.web.state import State

PATH = "/processors"
VERSIONS = "/versions"
"""Where an instance answers as at `/v1/many`, with versions in place of answers."""

OVER_ALL_COST = 10
"""Of a view over all partitions, in reads of a key."""


class Partition(msgspec.Struct):
    """One partition: its owner's address (None: nobody yet), the owner's epoch, next offsets by topic.

    `ends` are the end offsets by topic as the instance saw them last; while it cannot ask Kafka, some are missing.
    `progress` is how much of the first build is done, 0 to 1; `dead_letters` are the records that could not be used,
    and `dead_letter_reasons` how many there are for each reason; `refused` says why reads are refused, until someone
    changes something (empty: they are not).
    """

    partition: int
    owner: str | None
    epoch: int
    ready: bool
    positions: dict[str, int]
    ends: dict[str, int]
    progress: float = 1.0
    dead_letters: int = 0
    dead_letter_reasons: dict[str, int] = {}
    refused: str = ""


class Processor(msgspec.Struct, omit_defaults=True):
    """One instance and the partitions that it owns; `trouble`, if there is one, says why its stream does not fold."""

    host: str
    port: int
    partitions: list[int]
    trouble: str = ""


class ViewEntry(msgspec.Struct):
    """One view: its path with `<key>` in it, the topic whose partitioning locates a key, and the key's type.

    `anywhere` says that any ready instance answers for any key, and that `/v1/many` does not. A view of all partitions
    together has no topic, and one that is not about a key has no key: these are empty. `versioned` says that its keys
    have versions. `names`, `part`, `scope` and
    `cost` are what the service declares for the gateway.
    """

    name: str
    path: str
    topic: str
    key: str
    anywhere: bool = False
    names: NamedIds | UnsetType = UNSET
    part: Part | UnsetType = UNSET
    scope: Scope = ADMIN
    cost: Cost = Cost()
    versioned: bool = False


class Processors(msgspec.Struct):
    """The whole map; `topics` are the partition counts by topic, as Kafka had them when the state was claimed.

    `age_ms` are the milliseconds since the state last had all that its topics held, None when that is long ago.
    `answered` are the requests for views that the instance which tells the map has answered since its start; `users`
    says whether the state holds something of users.
    """

    service: str
    topics: dict[str, int]
    instances: list[Processor]
    partitions: list[Partition]
    views: list[ViewEntry]
    age_ms: int | None = None
    answered: int = 0
    users: bool = False


EXAMPLE: dict[str, Any] = msgspec.to_builtins(
    Processors(
        "metrics",
        {"listening-events": 6},
        [Processor("metrics-0", 8101, [3])],
        [
            Partition(
                3, "metrics-0:8101", 7, ready=True, positions={"listening-events": 17}, ends={"listening-events": 19}
            )
        ],
        [ViewEntry("metrics", "/v1/users/<key>/metrics", "listening-events", "long", scope=READ)],
        age_ms=120,
        answered=4_711,
    )
)
"""A map, for the document."""


def entries(app: App) -> list[ViewEntry]:
    """The views that are answered from the state of `app`: by the owner of the key's partition, if they are of one."""
    return [
        ViewEntry(
            view.name,
            view.path,
            "" if view.over_all_partitions else str(view.topic),
            view.key.name if view.key else "",
            view.over_all_partitions,
            view.names,
            view.part,
            view.scope,
            Cost(OVER_ALL_COST if view.over_all_partitions else 1),
            view.version is not None,
        )
        for view in app.views
    ]


def entry(app: App) -> ViewEntry:
    """The map itself, as one of the views: it has a path of its own at the gateway."""
    return ViewEntry(f"{app.name}-processors", f"/v1/{app.name}{PATH}", "", "", anywhere=True)


async def processors(
    app: App, state: State, freshness: Freshness, views: list[ViewEntry], answered: int = 0
) -> Processors:
    """The map as the state has it now, and Kafka's ends as they were seen last."""
    snapshots = await state.everywhere()
    owned: dict[str, list[int]] = defaultdict(list)
    for partition, snapshot in snapshots.items():
        if snapshot.owner is not None:
            owned[snapshot.owner].append(partition)
    told = await state.told([*owned])
    age = freshness.age(state.positions_of(snapshots))
    return Processors(
        app.name,
        dict(await state.counts()),
        [Processor(*Address.parse(at), partitions, told.get(at, "")) for at, partitions in sorted(owned.items())],
        [_partition(app, state, number, snapshot, freshness) for number, snapshot in snapshots.items()],
        [entry(app), *views],
        None if age is None else round(age * 1000),
        answered,
        bool(app.user_folds),
    )


def _partition(app: App, state: State, number: int, snapshot: Snapshot, freshness: Freshness) -> Partition:
    positions = dict(snapshot.positions)
    return Partition(
        number,
        snapshot.owner,
        snapshot.epoch,
        snapshot.ready(app.topics),
        positions,
        {topic: end for topic in positions if (end := freshness.end((topic, number))) is not None},
        snapshot.progress(app.topics),
        snapshot.counters.get(DEAD, 0),
        reasons(snapshot.counters),
        _refused(app, state, number, snapshot),
    )


def _refused(app: App, state: State, number: int, snapshot: Snapshot) -> str:
    try:
        state.require_ready(number, snapshot, app.topics)
    except Misconfigured as error:
        return str(error)
    except Problem:
        # It is claimed, or built, by and by.
        pass
    return ""
