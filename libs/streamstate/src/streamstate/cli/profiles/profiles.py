"""The group of commands `streamstate profile`."""

import typer

from streamstate.cli.profiles.check import check
from streamstate.cli.profiles.plan import plan

app = typer.Typer(help="A declared profile against its topic.", no_args_is_help=True, rich_markup_mode=None)
app.command()(check)
app.command()(plan)
