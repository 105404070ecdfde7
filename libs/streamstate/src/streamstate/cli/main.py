"""The command itself: `streamstate COMMAND …`."""

import os
import sys
from contextlib import nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from streamstate import bootstrap
from streamstate.cli import dead_letters, output
from streamstate.cli.access import acl, keys
from streamstate.cli.answers.replay import replay
from streamstate.cli.answers.unload import unload
from streamstate.cli.archives import archives
from streamstate.cli.backups.backup import backup
from streamstate.cli.backups.restore import restore
from streamstate.cli.changes import allow, skip, throttle
from streamstate.cli.config import config
from streamstate.cli.profiles.check import check
from streamstate.cli.profiles.draft import draft
from streamstate.cli.profiles.plan import plan
from streamstate.cli.releases.adopt import adopt
from streamstate.cli.releases.diff import diff
from streamstate.cli.releases.drop import drop
from streamstate.cli.releases.progress import releases, wait
from streamstate.cli.releases.promote import back, promote
from streamstate.cli.releases.stage import stage
from streamstate.cli.reset import reset
from streamstate.cli.status import owners, status
from streamstate.cli.trial.command import try_
from streamstate.cli.users.forward import forward
from streamstate.cli.users.partitions import lag, route, top
from streamstate.cli.users.profile import get, open_page, watch
from streamstate.cli.users.removal import erase, export
from streamstate.cli.verify import verify
from streamstate.errors import Commands

FURTHER = "streamstate.commands"
"""The group of entry points by which an installed package adds commands."""

BATCH = frozenset({"archive", "backup", "replay", "unload", "verify"})
"""Commands that read whole states or topics. Other processes of the machine get a core first."""

_LOWEST = 19


class _Command(TyperCommand):
    """Completes the commands in the error messages of a command about one service."""

    def invoke(self, ctx: Any) -> Any:
        service = ctx.params.get("service")
        with Commands(service, {}) if isinstance(service, str) else nullcontext():
            return super().invoke(ctx)


class _Commands(TyperGroup):
    """Ends with the line and the exit status of an expected error of any command."""

    def invoke(self, ctx: Any) -> Any:
        with output.failing():
            return super().invoke(ctx)


app = typer.Typer(
    name="streamstate",
    help="Asks the gateway that STREAMSTATE_GATEWAY names; looks at, verifies and mends the state of the services that "
    "STREAMSTATE_KAFKA and STREAMSTATE_REDIS hold.",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for command in (
    try_,
    get,
    watch,
    export,
    erase,
    route,
    lag,
    top,
    forward,
    open_page,
    status,
    owners,
    verify,
    replay,
    unload,
    config,
    skip,
    allow,
    throttle,
    reset,
    backup,
    restore,
    stage,
    wait,
    diff,
    promote,
    back,
    releases,
    drop,
    adopt,
):
    app.command(command.__name__.partition("_")[0], cls=_Command)(command)
profile = typer.Typer(help="A declared profile against its topic.", no_args_is_help=True, rich_markup_mode=None)
profile.command()(draft)
profile.command()(check)
profile.command()(plan)
app.add_typer(profile, name="profile")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(keys, name="keys")
app.add_typer(acl, name="acl")
app.add_typer(archives.app, name="archive")
for further in entry_points(group=FURTHER):
    app.command(further.name)(further.load())


def main() -> None:
    """The entry point. Services are imported from the working directory, as `python -m` would."""
    sys.path.insert(0, str(Path.cwd()))
    os.umask(bootstrap.OWN_FILES)
    if BATCH.intersection(sys.argv[1:2]):
        os.nice(_LOWEST)
    app(prog_name="streamstate")


if __name__ == "__main__":
    main()
