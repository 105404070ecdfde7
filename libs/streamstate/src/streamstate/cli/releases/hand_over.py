"""The hand-over of a service's outputs to its live release, one at a time."""

import time
from collections.abc import Mapping

from streamstate.cli.releases.beside import places
from streamstate.cli.services import Deployment
from streamstate.errors import Declined
from streamstate.releases.pointer import HELD_S
from streamstate.releases.record import Place, Releases, handed_over, handing_over
from streamstate.state.store import positions_of

PUBLISHED_S = 60.0
"""Seconds in which a former publisher must publish its last outputs."""

IN_FLIGHT_S = 0.25
"""Seconds in which batches that are published may be committed; a later batch is published again, as repeats."""

PAUSE_S = 0.02


def hand_over(of: Deployment, name: str) -> tuple[float, float]:
    """Let the live release `name` publish: the seconds until it does, and those in which nobody published.

    A command that was killed at any point is run again: streams undo a hand-over without cuts. Raises `Declined` when
    `name` is not live, or an earlier hand-over has no end.
    """
    began, record = time.monotonic(), complete(of)
    if record.publisher == name:
        return 0.0, 0.0
    if record.live != name:
        msg = f"another command made {record.live} live meanwhile; look at `streamstate releases`, and say it again"
        raise Declined(msg)
    of.pointer.replace(record, begun := handing_over(record))
    paused = time.monotonic()
    time.sleep(IN_FLIGHT_S)
    fenced = [_fenced(of, release, begun.number) for release in (record.publisher, name)]
    try:
        of.pointer.replace(begun, handed_over(begun, *fenced))
    except Declined as error:
        msg = f"Redis took longer than {HELD_S:g} s, and the streams undid the hand-over of the outputs: say it again"
        raise Declined(msg) from error
    paused_s = time.monotonic() - paused
    complete(of)
    return round(time.monotonic() - began, 3), round(paused_s, 3)


def _fenced(of: Deployment, release: str, number: int) -> Mapping[Place, int]:
    """The positions of `release` up to which it has published by an earlier record than `number`."""
    partitions = sorted({partition for _, partition in places(of)})
    return positions_of(of.release(release).store.fence(partitions, number))


def complete(of: Deployment) -> Releases:
    """The record when no hand-over goes on: waits for the former publisher's last outputs. Raises `Declined`."""
    deadline = time.monotonic() + PUBLISHED_S
    while True:
        record = of.pointer.settled()
        assert record
        if not record.former:
            return record
        if not (owed := of.pointer.owed(record, of.release(record.former).store)):
            continue
        if time.monotonic() > deadline:
            msg = (
                f"{record.live} answers, and {record.publisher} waits for outputs of {record.former} of "
                f"{sum(owed.values()):,} offsets: let the streams of {record.former} run, or give the outputs up by "
                f"`streamstate drop SERVICE {record.former} --without-outputs`"
            )
            raise Declined(msg)
        time.sleep(PAUSE_S)
