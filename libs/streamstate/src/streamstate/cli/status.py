"""`streamstate status` and `streamstate owners`: the state of each service, from Kafka and Redis."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from redis.exceptions import ClusterError, RedisError, TryAgainError
from rich.console import Group, RenderableType
from rich.text import Text

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit
from streamstate.cli.releases.live import followed, live_name
from streamstate.cli.report import DEAD_LETTERS, Seen, ServiceReport, report
from streamstate.cli.services import Deployment, Services, configured, deployments
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Member, Topics
from streamstate.kafka.presence import statuses
from streamstate.kafka.reading import open_since
from streamstate.state.redis import RedisStore, elsewhere
from streamstate.state.redis_reads import tag
from streamstate.state.store import Origin, Snapshot, TopicPartition, whole

PAUSE_S = 2.0
_FIRST = 8
"""Partitions read without Kafka, for the owners: an instance without any of them is left out."""

OPEN_S = 10.0
"""Seconds after which an open transaction is reported."""

Offsets = Mapping[TopicPartition, int]
Watch = Annotated[bool, typer.Option("--watch", help="Refresh the table until Ctrl-C.")]


def status(services: Services = None, *, watch: Watch = False, as_json: AsJson = False) -> None:
    """Show progress and refusals of services, with the commands to fix them.

    Lag: records between the stored offset and the end of a topic. Newest record: the greatest Kafka timestamp in
    the state.
    """
    if watch and as_json:
        msg = "--watch is for people; call the command again and again for --json"
        raise typer.BadParameter(msg)
    watched, reports = _reports(services)
    if watch:
        named = deployments(configured(), services) if services else watched
        with suppress(KeyboardInterrupt), output.live() as show:
            show(_overview(reports))
            while True:
                time.sleep(PAUSE_S)
                seen = [_live(*each) if services else _itself(each[0]) for each in zip(named, watched, strict=True)]
                watched = [of for of, _ in seen]
                show(_overview([_report(*each) for each in seen]))
        return
    output.show(reports, _overview(reports), as_json=as_json)
    if not all(of.healthy for of in reports):
        raise typer.Exit(Exit.REFUSED)


def owners(services: Services = None, *, as_json: AsJson = False) -> None:
    """Show the owner of each partition, by Kafka's consumer group and by the state."""
    _, reports = _reports(services)
    answer = {of.service: of.partitions for of in reports}
    columns = ("service", "partition", "instance", "owner", "epoch", "lag")
    rows = [
        (service, p.partition, p.instance or "-", p.owner or "-", p.epoch, f"{p.lag:,}")
        for service, partitions in answer.items()
        for p in partitions
    ]
    output.show(answer, output.table(columns, rows), as_json=as_json)


def observe(deployment: Deployment) -> Seen:
    """The present contents of Kafka and Redis. Raises their clients' own errors when one does not answer."""
    app, topics = deployment.app, deployment.topics
    faults: list[str] = []
    origins: dict[str, Origin] = {}
    for topic in app.topics:
        try:
            origins[topic] = topics.origin(topic)
        except Misconfigured as error:
            faults.append(str(error))
    places = [(topic, p) for topic, origin in origins.items() for p in range(origin.partitions)]
    width = topics.widest(origins) if origins else 0
    # In this order, records read by the state meanwhile were not deleted before, and are before the ends.
    begins = deployment.history.begins(places)
    snapshots, unreadable = readable(deployment.store, app.name, range(width))
    stable, ends, members = topics.ends(places), topics.high_watermarks(places), topics.members(app.group)
    faults += [*unreadable, *_told(deployment, members), *_held_back(deployment, stable, ends)]
    history = deployment.history.left(place for place in places if place[0] in app.requiring_beginning)
    seen = Seen(origins, begins, snapshots, ends, stable, members, history, faults, deployment.findings())
    # An unused name has no topics either.
    return replace(seen, faults=[*seen.faults, *_missing(topics, app.outputs)]) if seen.deployed else seen


def _held_back(of: Deployment, stable: Offsets, ends: Offsets) -> Iterator[str]:
    """The transactions that have held records back for longer than an ordinary commit takes."""
    for place, end in ends.items():
        if end > stable[place]:
            since = open_since(of.settings.kafka, place, stable[place], of.settings.security)
            if since is not None and time.time() - since / 1_000 > OPEN_S:
                yield (
                    f"an open transaction holds back {end - stable[place]} records of {place[0]}:{place[1]} since "
                    f"{_moment(since)}: end it, or find its producer by `kafka-transactions.sh find-hanging`"
                )


def _told(deployment: Deployment, members: Mapping[str, Member]) -> Iterator[str]:
    """The reasons of streams that do not fold, and the streams that use another Redis."""
    troubles = deployment.store.troubles(statuses(members))
    yield from (f"{instance} does not fold: {text}" for instance, text in troubles.items() if text)
    if others := [instance for instance, text in troubles.items() if text is None]:
        at = [f"{instance} ({members[instance].host})" for instance in others]
        yield elsewhere(at, deployment.app.group, deployment.settings.redis)


def _missing(topics: Topics, outputs: Sequence[str]) -> list[str]:
    """The first fault of the written topics."""
    try:
        topics.describe(outputs)
    except Misconfigured as error:
        return [str(error)]
    return []


def readable(store: RedisStore, app: str, partitions: Iterable[int]) -> tuple[dict[int, Snapshot], list[str]]:
    """The readable `partitions` of `app`, and the reasons why others cannot be read, or none can be written."""
    snapshots: dict[int, Snapshot] = {}
    # An unfit server gives the same fault for many partitions.
    faults: dict[str, None] = {}
    for partition in partitions:
        try:
            found, of_partition = _readable(store, partition)
        except (TryAgainError, ClusterError):
            slot = f"the slot of {tag(app, partition)}"
            of_partition = [f"{slot} is between two nodes of Redis; see `redis-cli --cluster check` and `fix`"]
        else:
            snapshots |= found
        faults |= dict.fromkeys(of_partition)
    return snapshots, list(faults)


def _readable(store: RedisStore, partition: int) -> tuple[Mapping[int, Snapshot], list[str]]:
    found, halves = whole(store, [partition])
    faults = [*map(str, halves.values())]
    try:
        # While its slot moves, a partition may be readable, but is not writable.
        store.require_fit(found)
    except Misconfigured as error:
        faults.append(str(error))
    return found, faults


def chosen(services: Sequence[str] | None) -> list[tuple[Deployment, Seen]]:
    """The live releases of the services named; else all releases that run or have a state, or all if there are none."""
    found = deployments(configured(), services)
    if services:
        return [_live(of) for of in found]
    seen = list(map(_itself, found))
    return [pair for pair in seen if pair[1].deployed] or seen


def _itself(of: Deployment) -> tuple[Deployment, Seen]:
    return of, observe(of)


def _live(of: Deployment, before: Deployment | None = None) -> tuple[Deployment, Seen]:
    """The live release; `of`, with the reason as a fault, where the release cannot be followed.

    before: the release that was live; while it stays live, its connections stay open.
    """
    try:
        live = before if before and live_name(of) == before.app.name else followed(of)
    except Misconfigured as error:
        seen = observe(of)
        return of, replace(seen, faults=[str(error), *seen.faults])
    return live, observe(live)


def _reports(services: Sequence[str] | None) -> tuple[Sequence[Deployment], list[ServiceReport]]:
    try:
        found = chosen(services)
    except KafkaException as error:
        for note in _told_before(deployments(configured(), services)):
            error.add_note(note)
        raise
    return [deployment for deployment, _ in found], [_report(deployment, seen) for deployment, seen in found]


def _told_before(named: Iterable[Deployment]) -> Iterator[str]:
    """What the streams of each service report in Redis while Kafka does not say which streams there are."""
    with suppress(RedisError):
        for of in named:
            # Without Kafka, the number of partitions is unknown; the owner of a low one is an instance.
            owners = {found.owner for found in whole(of.store, range(_FIRST))[0].values() if found.owner}
            troubles = of.store.troubles({owner: owner for owner in owners})
            yield from (f"{of.app.name}: {text}" for text in dict.fromkeys(troubles.values()) if text)


def _report(deployment: Deployment, seen: Seen) -> ServiceReport:
    made = report(deployment.app, seen, deployment.streams)
    made.faults = list(map(deployment.commands.complete, made.faults))
    return made


def _overview(reports: list[ServiceReport]) -> RenderableType:
    columns = ("service", "state", "topic", "partitions", "lag", "newest record", "dead letters")
    table = output.table(columns, [row for of in reports for row in _rows(of)])
    lines = [Text(f"{of.service}: {line}") for of in reports for line in (*of.faults, *of.warnings, *of.allowances)]
    return Group(table, *lines)


def _rows(of: ServiceReport) -> list[tuple[object, ...]]:
    """A row for each topic; the first row has the figures of the service."""
    heads = [(of.service, _state(of), of.counts.get(DEAD_LETTERS, 0)), *[("", "", "")] * len(of.topics)]
    rows: list[tuple[object, ...]] = [
        (service, state, topic.topic, topic.partitions, f"{topic.lag:,}", _moment(topic.newest_ms), dead)
        for (service, state, dead), topic in zip(heads, of.topics, strict=False)
    ]
    return rows or [(of.service, _state(of), "-", "-", "-", "-", "-")]


def _state(of: ServiceReport) -> str:
    if of.faults:
        return "refused" if of.running or len(of.faults) > 1 else "stopped"
    return "ready" if of.healthy else f"{of.progress:.0%} built"


def _moment(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
