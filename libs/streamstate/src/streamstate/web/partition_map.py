"""The map of a service: the owner of each partition, and the views. The gateway reads the map."""

from collections import defaultdict
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from streamstate.app import App
from streamstate.deployment.address import Address
from streamstate.errors import Misconfigured
from streamstate.keys import MURMUR2
from streamstate.processing.decode import DEAD, reasons
from streamstate.state.store import Snapshot
from streamstate.view import ADMIN, READ, Cost, NamedIds, Part, Scope
from streamstate.web.freshness import Freshness
from streamstate.web.http.problems import Problem
from streamstate.web.state import AppState

PATH = "/processors"
VERSIONS = "/versions"
"""Where an instance answers as at `/v1/many`, with versions in place of answers."""

OVER_ALL_COST = 10
"""Of a view over all partitions, in reads of a key."""


class Partition(msgspec.Struct):
    """One partition: its owner's address (None: no owner yet), the owner's epoch, next offsets by topic.

    `ends` are the last end offsets read by the instance, by topic; some are missing while Kafka does not answer.
    `progress` is the done share of the first build, 0 to 1; `dead_letters` are the unusable records, and
    `dead_letter_reasons` their number by reason; `refused` is the reason why reads are refused until an operator acts
    (empty: not refused).
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
    """One instance and its partitions; `trouble`, if present, is the reason why its stream does not fold."""

    host: str
    port: int
    partitions: list[int]
    trouble: str = ""


class ViewEntry(msgspec.Struct):
    """One view: its path with `<key>`, the topic whose partitioning locates a key, and the key's type.

    `anywhere`: any ready instance answers for any key, and `/v1/many` does not. A view over all partitions has an empty
        topic, and a view without a key an empty key. `versioned`: its keys have versions. `names`, `part`, `scope` and
        `cost` are the service's declarations for the gateway. `profile`: the declaration of a profile, by its words.
        `partitioner`: of the topic: murmur2, crc32 or fnv1a.
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
    profile: dict[str, Any] | UnsetType = UNSET
    partitioner: str = MURMUR2


class Processors(msgspec.Struct):
    """The whole map; `topics` are the partition counts by topic, as of the claims of the state.

    `age_ms` are the milliseconds since the state last had all records of its topics, None for an unknown age.
    `answered` are the requests for views answered by the instance since its start; `users`: whether the state holds
    data of users. `live` is the name of the service's live release, empty for a service with a single release, and
    `switches` the number of the record of the releases: a greater number is newer. `memory`, if asked for: the bytes of
    the state in Redis, estimated, at most a minute old; null without an estimate. `silent_since`: the time (ISO 8601)
    from which on Kafka has not answered the instance; empty while Kafka answers.
    """

    service: str
    topics: dict[str, int]
    instances: list[Processor]
    partitions: list[Partition]
    views: list[ViewEntry]
    age_ms: int | None = None
    answered: int = 0
    users: bool = False
    live: str = ""
    switches: int = 0
    memory: int | UnsetType | None = UNSET
    silent_since: str = ""


class MapQuery(msgspec.Struct, frozen=True):
    """The parameters of a request for the map."""

    memory: Annotated[bool, Meta(description="whether to estimate the memory of the state")] = False


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
    """The views answered from the state of `app`: a view of one partition by the owner of the key's partition."""
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
            view.cost or Cost(OVER_ALL_COST if view.over_all_partitions else 1),
            view.version is not None,
            UNSET if view.profile is UNSET else dict(view.profile),
            view.partitioner,
        )
        for view in app.views
    ]


def entry(app: App) -> ViewEntry:
    """The map itself as a view, with a path of its own at the gateway."""
    return ViewEntry(f"{app.name}-processors", f"/v1/{app.name}{PATH}", "", "", anywhere=True)


async def processors(
    app: App, state: AppState, freshness: Freshness, views: list[ViewEntry], answered: int = 0
) -> Processors:
    """The map by the present state, and Kafka's last known ends."""
    snapshots = await state.everywhere()
    owned: dict[str, list[int]] = defaultdict(list)
    for partition, snapshot in snapshots.items():
        if snapshot.owner is not None:
            owned[snapshot.owner].append(partition)
    troubles = await state.troubles([*owned])
    age = freshness.age(state.positions_of(snapshots))
    return Processors(
        app.name,
        dict(await state.counts()),
        [Processor(*Address.parse(at), partitions, troubles.get(at, "")) for at, partitions in sorted(owned.items())],
        [_partition(app, state, number, snapshot, freshness) for number, snapshot in snapshots.items()],
        [entry(app), *views],
        None if age is None else round(age * 1000),
        answered,
        bool(app.user_folds),
        *((releases.live, releases.number) if (releases := await state.releases(snapshots)) else ("", 0)),
        silent_since=freshness.silent_since,
    )


def _partition(app: App, state: AppState, number: int, snapshot: Snapshot, freshness: Freshness) -> Partition:
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


def _refused(app: App, state: AppState, number: int, snapshot: Snapshot) -> str:
    try:
        state.require_ready(number, snapshot, app.topics)
    except Misconfigured as error:
        return str(error)
    except Problem:
        # The partition will be claimed, or built.
        pass
    return ""
