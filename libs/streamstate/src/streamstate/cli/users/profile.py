"""`streamstate get`, `watch` and `open`: what is known of a user."""

import time
import webbrowser
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.users.answers import rendered
from streamstate.cli.users.gateway import Gateway, Refused, Unavailable, gateway

PAUSE_S = 1.0

User = Annotated[str, typer.Argument(help="Id of the user.")]
Parts = Annotated[
    str, typer.Option(metavar="PART,…", help="Only these parts of the answer, by the names of their views.")
]


def get(user: User, *, parts: Parts = "", as_json: AsJson = False) -> None:
    """Show what is known of a user."""
    answer = gateway().get(_path(user, parts))
    output.show(answer, rendered(answer), as_json=as_json)


def watch(user: User, *, parts: Parts = "") -> None:
    """Go on showing what is known of a user, until Ctrl-C; also of one who has no event yet."""
    asked, path = gateway(), _path(user, parts)
    shown = _seen(asked, path)
    with suppress(KeyboardInterrupt), Live(shown, auto_refresh=False) as live:
        while True:
            time.sleep(PAUSE_S)
            try:
                live.update(_seen(asked, path), refresh=True)
            except Unavailable as error:
                live.update(Text(f"{error}; trying again"), refresh=True)


def open_page() -> None:
    """Open the gateway's page in the browser, and print its address."""
    asked = gateway()
    asked.get("/readyz")
    output.say(f"{asked.url}/")
    webbrowser.open(f"{asked.url}/")


def _path(user: str, parts: str) -> str:
    return f"/v1/users/{quote(user, safe='')}" + (f"?parts={quote(parts)}" if parts else "")


def _seen(asked: Gateway, path: str) -> RenderableType:
    """The answer, or that there is none yet. Raises `Refused` for another problem, and `Unavailable`."""
    try:
        return rendered(asked.get(path))
    except Refused as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        return Text(f"{problem}; waiting")
