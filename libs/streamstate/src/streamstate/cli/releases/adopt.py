"""`streamstate adopt`: the lost record of a service's releases, made anew."""

import time
from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun, Yes, agree
from streamstate.cli.releases.beside import places
from streamstate.cli.services import Deployment, Service, deployment
from streamstate.errors import Declined, Misconfigured
from streamstate.releases import file
from streamstate.releases.record import adopted
from streamstate.state.store import Snapshot, positions_of, whole

Live = Annotated[str, typer.Argument(metavar="LIVE", help="Release that shall answer and publish.")]


class Adoption(msgspec.Struct):
    """A planned or stored record: the live release, which publishes, and the sum of the offsets of each release found.

    number: of the record, greater than all that the states know.
    """

    service: str
    live: str
    releases: dict[str, int]
    number: int
    dry_run: bool


def adopt(service: Service, live: Live, *, yes: Yes = False, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Make the record of a service's releases anew after its loss: LIVE answers, and publishes from its state on.

    Refused while there is a record. Stop the streams of all releases first, and start them afterwards. Outputs are
    missing where another release had to publish, and is behind LIVE.
    """
    of = deployment(service)
    text, found = of.pointer.text() or b"", {name: _partitions(of, name) for name in _names(of, live)}
    latest = max((each.record for states in found.values() for each in states.values()), default=0)
    _require_lost(of, latest)
    offsets = {name: positions_of(states) for name, states in found.items()}
    sums = {name: sum(of_release.values()) for name, of_release in offsets.items()}
    # Gateways may know a later record than the states.
    answer = Adoption(of.app.release_of, live, sums, max(latest + 1, int(time.time())), dry_run)
    verb = "would answer and publish" if dry_run else "answers and publishes"
    lines = [f"found {name}, with {count:,} offsets" for name, count in sums.items()]
    if not dry_run:
        with of.locked("adopt"):
            agree(lines, f"Let {live} answer and publish?", yes=yes)
            of.pointer.replace_text(text, adopted(live, tuple(found), offsets[live], answer.number))
    output.show(answer, f"{live} {verb}", *lines, as_json=as_json)


def _require_lost(of: Deployment, latest: int) -> None:
    """Raise `Declined` where there is a record of this version, as late as the states know."""
    try:
        record = of.pointer.read()
    except Misconfigured:
        return
    if record and latest <= record.number:
        msg = f"{of.app.release_of} has a record of its releases: `streamstate releases {of.service}` shows it"
        raise Declined(msg)


def _names(of: Deployment, live: str) -> list[str]:
    """`live`, the releases whose deployments are stored, and those of the file in RELEASES."""
    first, path = of.app.release_of, of.settings.releases
    deployments = bootstrap.deployments(of.settings).all()
    stored = [name for name, each in deployments.items() if first in (name, each.settings.get("RELEASE_OF"))]
    by_hand = file.read(path).get(first, {}) if path else {}
    return [*dict.fromkeys([live, *stored, *(name for name, each in by_hand.items() if each)])]


def _partitions(of: Deployment, name: str) -> Mapping[int, Snapshot]:
    return whole(of.release(name).store, {partition for _, partition in places(of)})[0]
