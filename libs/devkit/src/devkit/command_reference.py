"""The page of the command line, made from the command `streamstate` itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperArgument
from typer.main import get_group

from devkit.tables import table
from streamstate.cli.main import app

PATH = Path("docs/command-line.md")
_HEAD = """# Command line

Made from the source by `make docs`; each command has `--help`. [Operating](operations.md) says which one is for what,
and what an exit status means.
"""


def text() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_commands("streamstate", get_group(app))])


def _commands(name: str, command: Any) -> Iterator[str]:
    """A section for a command, or for each of the commands of a group."""
    if hasattr(command, "commands"):
        for each, inner in command.commands.items():
            yield from _commands(f"{name} {each}", inner)
        return
    arguments = [_spelled(parameter) for parameter in command.params if isinstance(parameter, TyperArgument)]
    yield f"## {name}\n\n    {' '.join([name, *arguments])}\n\n{command.help}\n"
    if command.params:
        yield table(("argument or option", "default", "what"), map(_row, command.params))


def _row(parameter: Any) -> tuple[str, str, str]:
    default = f"`{parameter.default}`" if parameter.default not in (None, False, "") else ""
    required = "required" if parameter.required else default
    return f"`{_spelled(parameter)}`", required, parameter.help or ""


def _spelled(parameter: Any) -> str:
    """How it is typed: optional arguments in brackets, repeated ones with an ellipsis, options with their value."""
    name = parameter.metavar or parameter.name.upper()
    if isinstance(parameter, TyperArgument):
        repeated = f"{name}…" if parameter.nargs == -1 else name
        return repeated if parameter.required else f"[{repeated}]"
    return ", ".join(parameter.opts) + ("" if parameter.is_flag else f" {name}")
