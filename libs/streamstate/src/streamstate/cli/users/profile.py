"""`streamstate get`, `watch` and `open`: the profile of a user."""

import webbrowser
from contextlib import suppress
from typing import Annotated

import msgspec
import typer
from rich.live import Live
from rich.text import Text

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.users.answers import rendered
from streamstate.cli.users.gateway import gateway
from streamstate_client import Unavailable
from streamstate_client.protocol import user_path

User = Annotated[str, typer.Argument(help="Id of the user.")]
Parts = Annotated[list[str] | None, typer.Option("--part", help="Part of the answer; repeatable.")]
Explain = Annotated[bool, typer.Option("--explain", help="Add the reasons of recommendations.")]


def get(user: User, *, part: Parts = None, explain: Explain = False, as_json: AsJson = False) -> None:
    """Show the profile of a user, as tables with bars."""
    answer = gateway().get(user_path(user, part or (), explain=explain))
    output.show(answer, rendered(answer), as_json=as_json)


def watch(user: User, *, part: Parts = None) -> None:
    """Show the profile of a user, live, until Ctrl-C."""
    path = user_path(user, part or (), explain=False, stream=True)
    with suppress(KeyboardInterrupt), Live(Text("waiting for the gateway"), auto_refresh=False) as live:

        def lost(error: Unavailable) -> None:
            live.update(Text(f"{error}; trying again"), refresh=True)

        for event in gateway().follow(path, lost):
            profile = msgspec.json.decode(event.data)
            known = rendered(profile) if profile else Text(f"nothing is known of {user}; waiting")
            live.update(known, refresh=True)


def open_page() -> None:
    """Open the gateway's page in the browser, and print its address."""
    asked = gateway()
    asked.get("/readyz")
    output.say(f"{asked.url}/")
    webbrowser.open(f"{asked.url}/")
