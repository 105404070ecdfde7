"""`streamstate promote` and `streamstate back`: another release answers and publishes."""

import time
from collections.abc import Iterable

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
from streamstate.cli.releases.hand_over import hand_over
from streamstate.cli.services import Deployment, Service
from streamstate.errors import Declined
from streamstate.releases.record import Releases, next_release, previous_release, require, switched
from streamstate.state.store import Snapshot, whole

REACHED_S = 30.0
"""Seconds in which a ready release must reach the positions of the live release."""

SEEN_S = 5.0
"""Seconds in which the gateway must answer from the release."""

PAUSE_S, SEEN_PAUSE_S = 0.02, 0.1
"""Seconds between two looks at the state, and at the gateway, which asks all instances."""


class Promotion(msgspec.Struct):
    """A planned or finished promotion. `warnings`: how answers break clients, and further refused records.

    `seconds`: from the first write until the gateway answers from `live`. `outputs_seconds`: of the hand-over of the
    outputs, in `paused_seconds` of which nobody published.
    """

    service: str
    before: str
    live: str
    warnings: list[str]
    dry_run: bool
    seconds: float = 0.0
    outputs_seconds: float = 0.0
    paused_seconds: float = 0.0


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

    Answers change at once, and outputs when the live release has published all before. `streamstate back` undoes it.
    """
    of, record = recorded(service)
    name = release or (record.live if record.publisher != record.live else next_release(record))
    require(record, name)
    differences = [] if without_gateway else beside.breaking(name)
    if not (breaking or dry_run):
        require_unbroken(name, differences)
    warnings = [*differences, *refused_more(look(of, name), look(of, record.live))]
    answer = Promotion(of.app.release_of, record.live, name, warnings, dry_run)
    _switch(of, record, answer, without_gateway=without_gateway)
    output.show(answer, _text(answer, f"streamstate back {service}"), as_json=as_json)


def back(
    service: Service, *, without_gateway: WithoutGateway = False, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Let the release before answer and publish again. `streamstate promote` undoes it."""
    of, record = recorded(service)
    answer = Promotion(of.app.release_of, record.live, previous_release(record), [], dry_run)
    _switch(of, record, answer, without_gateway=without_gateway)
    output.show(answer, _text(answer, f"streamstate promote {service} {record.live}"), as_json=as_json)


def _require_known(name: str) -> None:
    seen = seen_by_gateway(name)
    if seen is None:
        msg = f"the gateway does not know {name}: name its API in the file STREAMSTATE_RELEASES of the gateway"
        raise Declined(msg)
    if not seen["ready"]:
        msg = f"the gateway does not reach all owners of {name}; `streamstate wait` says when it is ready"
        raise Declined(msg)


def _switch(of: Deployment, record: Releases, answer: Promotion, *, without_gateway: bool) -> None:
    """Switch the answers, then the outputs; completes `answer`."""
    name = answer.live
    if not without_gateway:
        _require_known(name)
    if record.live != name:
        _require_ready(of, name)
    if answer.dry_run:
        return
    if record.live != name:
        _reach(of, record.live, name)
    began = time.monotonic()
    if record.live != name:
        of.pointer.replace(record, switched(record, name))
    if not without_gateway:
        _require_seen(name)
        answer.seconds = round(time.monotonic() - began, 3)
    answer.outputs_seconds, answer.paused_seconds = hand_over(of, name)


def _require_ready(of: Deployment, name: str) -> None:
    side = look(of, name)
    if side.word != "ready":
        why = "; ".join(side.faults) or f"{side.progress:.0%} built, {side.lag:,} records behind"
        msg = f"{name} is {side.word}: {why}; `streamstate wait {of.service} {name}` says when it is ready"
        raise Declined(msg)


def _reach(of: Deployment, live: str, name: str) -> None:
    """Wait until the release has all records that the live release had: no earlier answer is newer."""
    partitions = {partition for _, partition in places(of)}
    wanted, _ = whole(of.release(live).store, partitions)
    deadline, store = time.monotonic() + REACHED_S, of.release(name).store
    asked = dict.fromkeys(wanted, ())
    while any(_behind(snapshot, wanted[p], of.app.topics) for p, snapshot in store.read(asked).items()):
        if time.monotonic() > deadline:
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


def _text(answer: Promotion, undo: str) -> str:
    if answer.live == answer.before:
        text = f"{answer.live} is live already, and publishes"
    elif answer.dry_run:
        text = f"{answer.live} would answer and publish in place of {answer.before}"
    else:
        text = (
            f"{answer.live} answers in place of {answer.before} after {answer.seconds:.2f} s, and publishes after "
            f"{answer.outputs_seconds:.2f} s; `{undo}` undoes it"
        )
    return "\n  ".join([text, *answer.warnings])
