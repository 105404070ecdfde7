"""`streamstate promote` and `streamstate back`: another release answers and publishes."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun
from streamstate.cli.releases import beside
from streamstate.cli.releases.beside import (
    Breaking,
    Name,
    WithoutGateway,
    look,
    places,
    recorded,
    refused_more,
    require_unbroken,
    seen_by_gateway,
)
from streamstate.cli.services import Deployment, Service
from streamstate.errors import Declined
from streamstate.releases.record import Releases, next_release, next_write, previous_release
from streamstate.state.store import Snapshot, TopicPartition, whole

SAMPLED_S = 0.2
"""The least seconds in which the rate of the topics is measured."""

AHEAD_S, AHEAD = 2.0, 100
"""How far cuts are ahead of the topics: for so many seconds at the measured rate, and so many records besides."""

WRITTEN_S = 1.0
"""Seconds, by the clock of Redis, from a look at the ends of the topics until the write of a cut ahead of them."""

REACHED_S = 30.0
"""Seconds in which a ready release must reach the positions of the live release."""

SEEN_S = 5.0
"""Seconds in which the gateway must answer from the release."""

PAUSE_S, SEEN_PAUSE_S = 0.02, 0.1
"""Seconds between two looks at the state, and at the gateway, which asks all instances."""


class Promotion(msgspec.Struct):
    """A planned or finished promotion. `cuts` are the offsets from which `live` publishes, by topic and partition.

    `breaking` are the differences of the answers' form that break clients, `refused` the lines of `refused_more`.
    `seconds`: from the first write until the gateway answers from `live`.
    """

    service: str
    before: str
    live: str
    cuts: dict[str, dict[int, int]]
    breaking: list[str]
    refused: list[str]
    seconds: float
    dry_run: bool


def promote(
    service: Service,
    release: Name = "",
    *,
    breaking: Breaking = False,
    without_gateway: WithoutGateway = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a ready release answer and publish instead of the live release, which goes on folding.

    `streamstate back` undoes it.
    """
    begun = _begun(service)
    of, record = begun.of, begun.record
    name = release or next_release(record)
    if not without_gateway:
        _require_known(name)
    differences = [] if without_gateway else beside.breaking(name)
    if not (breaking or dry_run):
        require_unbroken(name, differences)
    refused = refused_more(look(of, name), look(of, record.live))
    undo = f"streamstate back {service}"
    _switch(begun, name, differences, refused, undo, without_gateway=without_gateway, dry_run=dry_run, as_json=as_json)


def back(
    service: Service, *, without_gateway: WithoutGateway = False, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Let the release before answer and publish again. `streamstate promote` undoes it."""
    begun = _begun(service)
    name = previous_release(begun.record)
    if not without_gateway:
        _require_known(name)
    undo = f"streamstate promote {service} {begun.record.live}"
    _switch(begun, name, [], [], undo, without_gateway=without_gateway, dry_run=dry_run, as_json=as_json)


class _Cut(NamedTuple):
    """The offsets from which a turn begins, and the latest time, by the clock of Redis, to write the turn."""

    offsets: Mapping[TopicPartition, int]
    by: float


@dataclass(frozen=True)
class _Begun:
    """A service as the command began, at the time `at`: the ends of its topics, and the positions of its releases.

    The other release reaches the positions of the live release while the command asks the gateway and Kafka.
    """

    of: Deployment
    record: Releases
    at: float
    ends: Mapping[TopicPartition, int]
    reached: Mapping[str, Mapping[int, Snapshot]]

    @property
    def least(self) -> dict[TopicPartition, int]:
        """The positions that all releases have reached."""
        states = self.reached.values()
        return {(t, p): min(of[p].positions.get(t, 0) if p in of else 0 for of in states) for t, p in self.ends}

    def cut(self) -> _Cut:
        """A cut ahead of the topics, by the rate since the command began."""
        time.sleep(max(0.0, self.at + SAMPLED_S - time.monotonic()))
        by = self.of.pointer.now() + WRITTEN_S
        ends = self.of.topics.high_watermarks(self.ends)
        return _Cut(ahead(self.ends, ends, time.monotonic() - self.at), by)


def _begun(service: str) -> _Begun:
    of, record = recorded(service)
    asked = places(of)
    partitions = {partition for _, partition in asked}
    reached = {name: whole(of.release(name).store, partitions)[0] for name in record.releases}
    return _Begun(of, record, time.monotonic(), of.topics.high_watermarks(asked), reached)


def _require_known(name: str) -> None:
    seen = seen_by_gateway(name)
    if seen is None:
        msg = f"the gateway does not know {name}: name its API in the file STREAMSTATE_RELEASES of the gateway"
        raise Declined(msg)
    if not seen["ready"]:
        msg = f"the gateway does not reach all owners of {name}; `streamstate wait` says when it is ready"
        raise Declined(msg)


def _switch(
    begun: _Begun,
    name: str,
    differences: list[str],
    refused: list[str],
    undo: str,
    *,
    without_gateway: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Store the remaining records of `next_write`, and show the promotion, with the command `undo`."""
    of, before = begun.of, begun.record
    side = look(of, name)
    if side.word != "ready" and next_write(before, name, {}) is not None:
        why = "; ".join(side.faults) or f"{side.progress:.0%} built, {side.lag:,} records behind"
        msg = f"{name} is {side.word}: {why}; `streamstate wait {of.service} {name}` says when it is ready"
        raise Declined(msg)
    cut = begun.cut()
    began = time.monotonic()
    record = _planned(begun, name, cut) if dry_run else _stored(begun, name, cut)
    seconds = time.monotonic() - began
    if not (without_gateway or dry_run):
        _require_seen(name)
        seconds = time.monotonic() - began
    last = record.turns[-1].cuts
    answer = Promotion(of.app.release_of, before.live, name, last, differences, refused, round(seconds, 3), dry_run)
    output.show(answer, _text(answer, before, undo), as_json=as_json)


def _planned(begun: _Begun, name: str, cut: _Cut) -> Releases:
    """The record with the release live and publishing."""
    record = begun.record
    while (after := next_write(record, name, cut.offsets, begun.least)) is not None:
        record = after
    return record


def _stored(begun: _Begun, name: str, cut: _Cut) -> Releases:
    """The same, stored by one or two writes; the turn with a later cut where Redis does not write it in time."""
    record, deadline = begun.record, time.monotonic() + REACHED_S
    while (after := next_write(record, name, cut.offsets, begun.least)) is not None:
        turns = after.live == record.live
        if not turns:
            _reach(begun, name)
        if begun.of.pointer.replace(record, after, cut.by if turns else None):
            record = after
            continue
        if time.monotonic() > deadline:
            msg = f"Redis takes longer than {WRITTEN_S:g} s to write; nothing is changed: repair it, then say it again"
            raise Declined(msg)
        cut = begun.cut()
    return record


def ahead(
    first: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], seconds: float
) -> Mapping[TopicPartition, int]:
    """Offsets that no record will have before the next write: by the present `ends`, `seconds` after the `first`."""
    return {place: end + AHEAD + int((end - first[place]) / seconds * AHEAD_S) for place, end in ends.items()}


def _reach(begun: _Begun, name: str) -> None:
    """Wait until the release has all records that the live release had: no earlier answer is newer."""
    deadline, wanted = time.monotonic() + REACHED_S, begun.reached[begun.record.live]
    store = begun.of.release(name).store
    asked = dict.fromkeys(wanted, ())
    while any(_behind(snapshot, wanted[p], begun.of.app.topics) for p, snapshot in store.read(asked).items()):
        if time.monotonic() > deadline:
            live = begun.record.live
            msg = f"{name} does not reach the positions of {live}; look at `streamstate releases`, then run it again"
            raise Declined(msg)
        time.sleep(PAUSE_S)


def _behind(snapshot: Snapshot, other: Snapshot, topics: Iterable[str]) -> bool:
    return any(snapshot.positions.get(topic, 0) < other.positions.get(topic, 0) for topic in topics)


def _require_seen(name: str) -> None:
    """Wait until the gateway answers from the release."""
    deadline = time.monotonic() + SEEN_S
    while not ((seen := seen_by_gateway(name)) and seen["live"]):
        if time.monotonic() > deadline:
            msg = f"{name} is live, but the gateway has not noticed for {SEEN_S:g} s: read the gateway's log"
            raise Declined(msg)
        time.sleep(SEEN_PAUSE_S)


def _text(answer: Promotion, before: Releases, undo: str) -> str:
    if before.live == before.publisher == answer.live:
        return f"{answer.live} is live already"
    lines = [*answer.breaking, *answer.refused]
    if answer.live == before.live:
        verb = "would stay live and publish" if answer.dry_run else "stays live and publishes"
        text = f"{answer.live} {verb}, after {answer.seconds:.2f} s; the promotion of {before.publisher} is undone"
        return "\n  ".join([text, *lines])
    verb = "would be live and publish" if answer.dry_run else "is live and publishes"
    text = f"{answer.live} {verb} in place of {answer.before}, after {answer.seconds:.2f} s; `{undo}` undoes it"
    return "\n  ".join([text, *lines])
