"""`streamstate drop`: a release that does not answer is deleted."""

import time
from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer
from confluent_kafka import KafkaException

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun, Yes, agree
from streamstate.cli.releases.beside import Name, look, recorded
from streamstate.cli.releases.hand_over import complete
from streamstate.cli.reset import delete
from streamstate.cli.services import Deployment, Service
from streamstate.errors import Declined
from streamstate.releases import file
from streamstate.releases.record import dropped, dropping, next_release

ENDING_S = 60.0
"""Seconds in which the reader of the file in RELEASES must end the streams of a release."""

PAUSE_S = 0.5

WithoutOutputs = Annotated[
    bool, typer.Option("--without-outputs", help="Give up the outputs that the release has still to publish.")
]


class Dropped(msgspec.Struct):
    """A planned or finished deletion: the number of keys by partition, and the consumer group.

    `unpublished`: by topic:partition, the offsets without outputs, of a release that had still to publish.
    """

    service: str
    release: str
    keys: dict[int, int]
    group: str
    unpublished: dict[str, int]
    dry_run: bool


def drop(
    service: Service,
    release: Name = "",
    *,
    without_outputs: WithoutOutputs = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete a release that does not answer: its keys and its consumer group. Nothing undoes it.

    Waits for its last outputs. Refuses the live release, and running streams, except the demo's.
    """
    of, record = recorded(service)
    name = release or record.dropping or next_release(record)
    if name == record.former and not (without_outputs or dry_run):
        record = complete(of)
    after = dropping(record, name, without_outputs=without_outputs or dry_run)
    side, deleter = look(of, name), bootstrap.deletion(of.settings, name)
    keys = {p: held.keys for p, held in deleter.holdings().items()}
    unpublished = {f"{t}:{p}": count for (t, p), count in record.owes(name, side.positions).items()}
    answer = Dropped(of.app.release_of, name, keys, side.of.app.group, unpublished, dry_run)
    lost = f"; the outputs of {sum(unpublished.values()):,} offsets will be missing" if unpublished else ""
    if not dry_run:
        with of.locked("drop") as lock:
            agree([f"to be deleted: {name}, {sum(keys.values()):,} keys{lost}"], "Delete it?", yes=yes)
            if after != record:
                of.pointer.replace(record, after)
            _stop(of, name)
            lock.require()
            delete(deleter, deleter.holdings())
            _delete_group(of, name)
            bootstrap.deployments(of.settings).delete(name)
            of.pointer.replace(after, dropped(after))
    verb = "would be deleted" if dry_run else "is deleted"
    text = f"{name} {verb}: {sum(keys.values()):,} keys, the consumer group {answer.group}{lost}"
    output.show(answer, text, as_json=as_json)


def _stop(of: Deployment, name: str) -> None:
    """Let the reader of the file in RELEASES end the streams. Raises `Declined` for running streams."""
    first, path, deadline = of.app.release_of, of.settings.releases, time.monotonic()
    if path and (name == first or name in file.read(path).get(first, {})):
        file.change(path, first, name, None)
        deadline += ENDING_S
    while members := _members(of, name):
        if time.monotonic() >= deadline:
            msg = (
                f"{', '.join(sorted(members))} run in the consumer group of {name}: stop them, on Kubernetes by "
                f"`helm uninstall {name}`, and run it again"
            )
            raise Declined(msg)
        time.sleep(PAUSE_S)


def _members(of: Deployment, name: str) -> Mapping[str, object]:
    return of.topics.members(of.release(name).app.group)


def _delete_group(of: Deployment, name: str) -> None:
    group = of.release(name).app.group
    try:
        of.topics.delete_group(group)
    except KafkaException as error:
        msg = f"the keys of {name} are deleted, but not its consumer group {group} ({error}): run it again"
        raise Declined(msg) from error
