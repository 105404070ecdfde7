"""The page of the command line, made from the command `streamstate` itself."""

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperArgument
from typer.main import get_group

from streamstate.cli.main import app

PATH = Path("docs/command-line.md")
_HEAD = """# Command line

`make docs` makes this page from the help of `streamstate`. The command is in every image, and in `.venv/bin`:

```sh
kubectl exec metrics-0 -c api -- streamstate status      # in a pod: its service, with the settings of the pod
.venv/bin/streamstate status                             # beside `make demo`: all services
```

[Settings](reference.md#settings) give the addresses, by default the demo's:

- `get`, `watch`, `export`, `erase`, `route`, `lag`, `top`, `open` ask the gateway: `STREAMSTATE_GATEWAY`,
  `_GATEWAY_KEY`.
- `status`, `owners`, `verify`, `profile`, `dlq`, `skip`, `allow`, `reset` and `restore` use Kafka and Redis:
  `STREAMSTATE_KAFKA`, `_REDIS`; `backup` uses Redis.
- `stage`, `wait`, `diff`, `promote`, `back`, `releases` and `drop` use Kafka, Redis and the gateway; a release has its
  own keys in Redis, so the user needs the keys of both releases.
- `feed` uses `STREAMSTATE_KAFKA`, `forward` the context of `kubectl`.
- `STREAMSTATE_PACKAGE` is the package of the services. A deployment of another name is chosen by
  `STREAMSTATE_NAME=metrics-eu streamstate status metrics`.

`streamstate --install-completion` installs shell completion. An installed package adds commands by entry points of
the group `streamstate.commands`. Results go to stdout, progress and errors to stderr.

| exit status | meaning |
| --- | --- |
| 0 | success |
| 1 | a difference, a refusal, or not ready |
| 2 | wrong arguments |
| 3 | wrong settings: the error names the variable |
| 4 | no answer from Kafka, Redis or the gateway |
| 5 | a deletion is written, its receipts unreadable |

Parameters of several commands:
"""


def text() -> str:
    """The whole page."""
    commands = list(_commands("streamstate", get_group(app)))
    counts = Counter(_row(parameter) for _, command in commands for parameter in command.params)
    meanings = Counter(spelled for spelled, _, _ in counts)
    shared = [row for row, count in counts.items() if row[2] and count > 1 and meanings[row[0]] == 1]
    return "\n".join([_HEAD, _listed(shared), *(_section(name, command, shared) for name, command in commands)])


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command with its full name, or each command of a group."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, inner in command.commands.items():
        yield from _commands(f"{name} {each}", inner)


def _section(name: str, command: Any, shared: Collection[tuple[str, str, str]]) -> str:
    """The usage of a command, its help, and its parameters apart from the `shared` ones."""
    usage = " ".join([name, *map(_used, command.params)])
    own = _listed([row for row in map(_row, command.params) if row not in shared and row[2]])
    title = name.partition(" ")[2]
    return f"## {title}\n\n```sh\n{usage}\n```\n\n{command.help}\n" + (f"\n{own}" if own else "")


def _listed(rows: Collection[tuple[str, str, str]]) -> str:
    return "".join(f"- {spelled}{default}: {described}\n" for spelled, default, described in rows)


def _row(parameter: Any) -> tuple[str, str, str]:
    """Spelling, default and description of a parameter."""
    default = f" ({parameter.default})" if parameter.default not in (None, False, "") else ""
    spelled = _spelled(parameter) if isinstance(parameter, TyperArgument) else "|".join(parameter.opts)
    return f"`{spelled}`", default, parameter.help or ""


def _used(parameter: Any) -> str:
    """A parameter in the usage: in brackets unless required."""
    return _spelled(parameter) if parameter.required else f"[{_spelled(parameter)}]"


def _spelled(parameter: Any) -> str:
    """A parameter as typed: a repeated argument with an ellipsis, an option with its value."""
    name = parameter.metavar or parameter.name.upper()
    if isinstance(parameter, TyperArgument):
        return f"{name}…" if parameter.nargs == -1 else name
    return "|".join(parameter.opts) + ("" if parameter.is_flag else f" {name}")
