"""`streamstate keys`: API keys of the gateway."""

from typing import Annotated

import msgspec
import typer

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.view import READ
from streamstate.web.access import keys

app = typer.Typer(help="API keys of the gateway.", no_args_is_help=True, rich_markup_mode=None)


class NewKey(msgspec.Struct):
    """A new key, shown once, and its line in the file of keys."""

    key: str
    line: str


@app.callback()
def _keys() -> None:
    """Without a callback, typer would omit the name of a single command."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the caller: lower case letters, digits, . _ and -.")],
    scope: Annotated[list[str] | None, typer.Option(help="read (default), explore or admin; repeatable.")] = None,
    requests_per_s: Annotated[
        int | None, typer.Option(min=1, help="Requests a second; default: the gateway's.")
    ] = None,
    cost_per_s: Annotated[int | None, typer.Option(min=1, help="Cost a second; default: the gateway's.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Print a new key, and the line with its hash for the file ACCESS_KEYS. The key is not stored."""
    secret = keys.generate()
    given = {"requests_per_s": requests_per_s, "cost_per_s": cost_per_s}
    entry = {"name": name, "sha256": keys.digest(secret), "scopes": scope or [READ], **given}
    try:
        key = msgspec.convert(entry, keys.Key)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from error
    made = NewKey(secret, msgspec.json.encode(key).decode())
    output.show(made, f"key:  {made.key}", f"line: {made.line}", as_json=as_json)
