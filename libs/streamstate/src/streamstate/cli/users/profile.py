"""`streamstate get`, `watch` and `open`: the profile of a user."""

import sys
import webbrowser
from contextlib import suppress
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.services import gateway
from streamstate.cli.users.answers import rendered
from streamstate_client.protocol import user_path

User = Annotated[str, typer.Argument()]
Parts = Annotated[list[str] | None, typer.Option("--part", help="Part of the answer; repeatable.")]
Explain = Annotated[bool, typer.Option("--explain", help="Add the reasons of recommendations.")]


def get(user: User, *, part: Parts = None, explain: Explain = False, as_json: AsJson = False) -> None:
    """Show the profile of a user."""
    answer = gateway().get(user_path(user, part or (), explain=explain))
    output.show(answer, rendered(answer), as_json=as_json)


def watch(user: User, *, part: Parts = None) -> None:
    """Show the profile of a user, live, until Ctrl-C."""
    path = user_path(user, part or (), explain=False, stream=True)
    with suppress(KeyboardInterrupt), output.live() as show:
        if sys.stdout.isatty():
            show(Text("waiting for the gateway"))
        for event in gateway().follow(path, lambda error: show(Text(f"{error}; trying again"))):
            profile = msgspec.json.decode(event.data)
            show(rendered(profile) if profile else Text(f"nothing is known of {user}; waiting"))


def open_page() -> None:
    """Open the gateway's page in the browser, and print its address."""
    asked = gateway()
    asked.get("/readyz")
    output.say(f"{asked.url}/")
    webbrowser.open(f"{asked.url}/")
