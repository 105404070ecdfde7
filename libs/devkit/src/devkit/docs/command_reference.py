"""The page of the command line, made from the command `streamstate` itself."""

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperArgument
from typer.main import get_group

from devkit.docs.tables import listed
from streamstate.cli.main import app

PATH = Path("docs/command-line.md")
_HEAD = """# Command line

Made from the help of `streamstate` by `make docs`. The command is in every image, and in `.venv/bin`:

```sh
kubectl exec metrics-0 -c api -- streamstate status      # in a pod: its service, with the settings of the pod
.venv/bin/streamstate status                             # beside `make demo`: all services
```

Commands by task. [Settings](reference.md#settings) give the addresses, by default the demo's:

- a profile over a file, without servers: `try`
- users and reads, by the gateway (`STREAMSTATE_GATEWAY`, `_GATEWAY_KEY`): `get`, `watch`, `export`, `erase`, `route`,
  `lag`, `top`, `open`, `forward`
- state, by Kafka and Redis (`STREAMSTATE_KAFKA`, `_REDIS`): `status`, `owners`, `verify`; changes: `skip`, `allow`,
  `throttle`, `reset`, `dlq`; copies: `backup`, `restore`, `archive`; answers: `replay`, `unload`
- releases, by all three: `stage`, `wait`, `diff`, `promote`, `back`, `releases`, `drop`, `adopt`
- setting up: `config`, `profile`, `keys`, `acl`, `feed`

SERVICE is the name of a deployment in Redis: `metrics`, `metrics-eu`, a profile such as `habits`, a staged release such
as `metrics-2`. Its streams have stored its settings, and the file of a profile, at their start. The name of a service's
first release stands for the live release. Before the first start, and with `STREAMSTATE_NAME`, SERVICE is a folder of
the package `STREAMSTATE_PACKAGE`, with the settings of the environment.

`streamstate --install-completion` installs shell completion; entry points of the group `streamstate.commands` add
commands. Results go to stdout, progress and errors to stderr. After an interruption, run a command again. `archive`,
`backup`, `replay`, `unload` and `verify` run at the lowest CPU priority (nice 19): other processes get a core first.

A command that changes a service takes the lock of the service, until its end, questions included; `promote` and `back`,
which end within seconds, and `--dry-run` take none. Another such command is refused, and names the command, host and
process that has the lock, and since when. The lock is in Redis beside the state: `{SERVICE:lock}`. It ends with its
command, or 15 s after a command was killed; a command that lost it changes nothing more.

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
    meanings = Counter(spelled for spelled, meaning in counts if meaning)
    shared = [row for row, count in counts.items() if row[1] and count > 1 and meanings[row[0]] == 1]
    return "\n".join([_HEAD, listed(shared), *(_section(name, command, shared) for name, command in commands)])


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command with its full name, or each command of a group."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, inner in command.commands.items():
        yield from _commands(f"{name} {each}", inner)


def _section(name: str, command: Any, shared: Collection[tuple[str, str]]) -> str:
    """The usage of a command, its help, and its parameters apart from the `shared` ones."""
    usage = " ".join([name, *map(_used, command.params)])
    own = listed([row for row in map(_row, command.params) if row not in shared and row[1]])
    title = name.partition(" ")[2]
    return f"## {title}\n\n```sh\n{usage}\n```\n\n{command.help}\n" + (f"\n{own}" if own else "")


def _row(parameter: Any) -> tuple[str, str]:
    """Spelling with the default, and description of a parameter."""
    default = f"={parameter.default}" if parameter.default not in (None, False, "") else ""
    spelled = _spelled(parameter) if isinstance(parameter, TyperArgument) else "|".join(parameter.opts)
    return f"{spelled}{default}", f": {parameter.help}" if parameter.help else ""


def _used(parameter: Any) -> str:
    """A parameter in the usage: in brackets unless required."""
    return _spelled(parameter) if parameter.required else f"[{_spelled(parameter)}]"


def _spelled(parameter: Any) -> str:
    """A parameter as typed: a repeated argument with an ellipsis, an option with its value."""
    name = parameter.metavar or parameter.name.upper()
    if isinstance(parameter, TyperArgument):
        return f"{name}…" if parameter.nargs == -1 else name
    return "|".join(parameter.opts) + ("" if parameter.is_flag else f" {name}")
