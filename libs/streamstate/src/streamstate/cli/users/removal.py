"""`streamstate export` and `erase`: all that is held of a user, and its end."""

import time
from typing import Annotated

import typer

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit, Yes, agree
from streamstate.cli.users.gateway import gateway
from streamstate.cli.users.profile import User

PAUSE_S = 1.0

Seconds = Annotated[float, typer.Option("--wait", min=0, help="Most seconds to wait until it is done.")]


def export(user: User) -> None:
    """Print all that the services hold of a user, as JSON."""
    output.document(gateway().export(user))


def erase(user: User, *, wait: Seconds = 60, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete what all services hold of a user, and show which has done so.

    Records of the user stay in Kafka for as long as its topics keep them, and count no more. The exit status is 1 when
    the time to wait is over first; the deletion goes on all the same.
    """
    asked = gateway()
    agree([], f"Delete all that is held of the user {user}?", yes=yes)
    deletion, end = asked.delete(user), time.monotonic() + wait
    while not deletion.done and time.monotonic() < end:
        time.sleep(PAUSE_S)
        deletion = asked.deletion(user)
    rows = [
        (each.service, part.partition, "done" if part.done else "waiting", topic, before)
        for each in deletion.services
        for part in each.partitions
        for topic, before in part.before.items()
    ]
    output.show(deletion, output.table(("service", "partition", "state", "topic", "before"), rows), as_json=as_json)
    if not deletion.done:
        raise typer.Exit(Exit.REFUSED)
