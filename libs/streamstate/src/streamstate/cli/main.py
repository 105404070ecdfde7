"""The command itself: `streamstate COMMAND …`."""

import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from streamstate.cli import dead_letters, keys, output
from streamstate.cli.changes import allow, skip
from streamstate.cli.config import config
from streamstate.cli.reset import reset
from streamstate.cli.status import owners, status
from streamstate.cli.verify import verify


class _Commands(TyperGroup):
    """Ends with the line and the exit status of an expected error, whatever command raised it."""

    def invoke(self, ctx: Any) -> Any:
        with output.failing():
            return super().invoke(ctx)


app = typer.Typer(
    name="streamstate",
    help="Looks at, verifies and mends the state of the services that STREAMSTATE_KAFKA and STREAMSTATE_REDIS hold.",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for command in (status, owners, verify, config, skip, allow, reset):
    app.command()(command)
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(keys.app, name="keys")


def main() -> None:
    """The entry point. Services are imported from the working directory, as `python -m` would."""
    sys.path.insert(0, str(Path.cwd()))
    app(prog_name="streamstate")


if __name__ == "__main__":
    main()
