"""`streamstate export` and `erase`: all data of a user, and its deletion."""

import sys
import time
from http import HTTPStatus
from typing import Annotated

import typer

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit, Yes, agree
from streamstate.cli.services import gateway
from streamstate.cli.users.profile import User
from streamstate_client import Client, Deletion
from streamstate_client.errors import Refused, Unavailable

PAUSE_S = 1.0

Seconds = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait.")]


def export(user: User) -> None:
    """Print all data of a user, as JSON."""
    output.document(gateway().export(user))


def erase(user: User, *, wait: Seconds = 60, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a user in all services, and show the progress.

    A running deletion is awaited, not requested again. Exit status 1: it still runs after --wait.
    """
    asked, unread = gateway(), ""
    agree([], f"Delete all data of the user {user}?", yes=yes)
    deletion, end = _pending(asked, user) or asked.delete(user), time.monotonic() + wait
    while not deletion.done and time.monotonic() < end:
        time.sleep(PAUSE_S)
        try:
            deletion, unread = asked.deletion(user), ""
        except Unavailable as error:
            unread = str(error)
    rows = [
        (each.service, part.partition, "done" if part.done else "waiting", topic, before)
        for each in deletion.services
        for part in each.partitions
        for topic, before in part.before.items()
    ]
    output.show(deletion, output.table(("service", "partition", "state", "topic", "before"), rows), as_json=as_json)
    if unread:
        text = f"the deletion is requested, and its receipts cannot be read at present ({unread}); call this again\n"
        sys.stderr.write(text)
        raise typer.Exit(Exit.WRITTEN)
    if not deletion.done:
        raise typer.Exit(Exit.REFUSED)


def _pending(asked: Client, user: str) -> Deletion | None:
    """The pending deletion of `user`, None when there is none, or it is done. Raises `Unavailable`."""
    try:
        deletion = asked.deletion(user)
    except Refused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return None if deletion.done else deletion
