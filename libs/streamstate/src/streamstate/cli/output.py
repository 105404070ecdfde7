"""The output of commands: one JSON document, or tables, on stdout; progress and one-line errors on stderr."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import partial
from typing import Annotated, Any

import msgspec
import typer
from confluent_kafka import KafkaError, KafkaException
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streamstate import bootstrap
from streamstate.errors import Declined, Misconfigured, StreamStateError
from streamstate.settings import CommandSettings, load
from streamstate_client import GatewayError, Unavailable, Unreachable


class Exit(IntEnum):
    """The exit status of a command. 2 is typer's own: the command was called wrongly."""

    FINE = 0
    REFUSED = 1
    """Something differs, is refused or unhealthy."""
    MISCONFIGURED = bootstrap.MISCONFIGURED
    UNREACHABLE = 4
    """Kafka, Redis or the gateway does not answer."""
    WRITTEN = 5
    """The request was made, and its result cannot be read at present."""


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the changes.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

_KAFKA_REFUSES = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}

_NOT_CUT = 10_000
"""Columns of output to a file or a pipe."""


def show(answer: Any, *tables: RenderableType, as_json: bool) -> None:
    """Print `answer` for programs, or `tables` for people."""
    if as_json:
        document(answer)
    else:
        say(*tables)


def document(answer: Any) -> None:
    """Print `answer` (a msgspec struct, a dataclass, or plain values) as JSON."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n")


def say(*tables: RenderableType) -> None:
    """Print tables or texts for people; output to a file or pipe is not cut to a terminal's width."""
    width = None if sys.stdout.isatty() else _NOT_CUT
    Console(width=width, markup=False, highlight=False, emoji=False, soft_wrap=True).print(*tables, sep="\n")


@contextmanager
def live() -> Iterator[Callable[[RenderableType], None]]:
    """Shows each answer in place of the last one; a file or pipe gets each answer at once."""
    if sys.stdout.isatty():
        with Live(auto_refresh=False) as shown:
            yield partial(shown.update, refresh=True)
    else:
        yield _at_once


def _at_once(answer: RenderableType) -> None:
    say(answer)
    sys.stdout.flush()


def agree(tables: Iterable[RenderableType], question: str, *, yes: bool) -> None:
    """Unless `yes`, show `tables` and `question` on stderr, and exit with the status 1 when the answer is not y.

    Raises `Declined` without a terminal or another input to answer.
    """
    if yes:
        return
    Console(stderr=True, markup=False, highlight=False).print(*tables, sep="\n")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as error:
        if sys.stdin.isatty():
            raise
        sys.stderr.write("\n")
        msg = "nothing is changed: there is no terminal to answer the question; say --yes"
        raise Declined(msg) from error
    if not agreed:
        raise typer.Abort


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """A table of texts under the heads `columns`."""
    made = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*map(str, row))
    return made


def offsets(of: Mapping[str, int]) -> str:
    """Offsets by topic, for people."""
    return ", ".join(f"{topic} {offset}" for topic, offset in of.items()) or "-"


class _Rate(ProgressColumn):
    """The progress per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def progress() -> Progress:
    """Bars with rate and time left, when stderr is a terminal. A context manager."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def bar(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar of `progress`, moved by calls with the number of further steps."""
    with progress() as bars:
        yield partial(bars.advance, bars.add_task(description, total=total))


@contextmanager
def failing() -> Iterator[None]:
    """Print an expected error of the body in one line, its notes in a line each, and exit with its status."""
    try:
        yield
        sys.stdout.flush()
    except Misconfigured as error:
        raise _failed(str(error), Exit.MISCONFIGURED) from error
    except Unreachable as error:
        raise _failed(f"{error}; STREAMSTATE_GATEWAY names it", Exit.UNREACHABLE) from error
    except Unavailable as error:
        raise _failed(str(error), Exit.UNREACHABLE) from error
    except (StreamStateError, GatewayError) as error:
        raise _failed(str(error), Exit.REFUSED, getattr(error, "__notes__", ())) from error
    except (AuthenticationError, ResponseError) as error:
        message = f"Redis refuses: {error}; `streamstate acl redis` prints the rights of its user"
        raise _failed(message, Exit.REFUSED) from error
    except RedisError as error:
        message = f"Redis does not answer at {_servers().redis} ({error}); check the server and STREAMSTATE_REDIS"
        raise _failed(message, Exit.UNREACHABLE) from error
    except KafkaException as error:
        raise _refused_by_kafka(error) from error
    except BrokenPipeError as error:
        # Nobody reads on, so the flush at the end of the process would fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(Exit.REFUSED) from error
    except OSError as error:
        raise _failed(f"a file or a file system fails: {error}", Exit.REFUSED) from error


def _refused_by_kafka(error: KafkaException) -> typer.Exit:
    # The text alone may be empty.
    reason = f"{error.args[0].name()}: {error.args[0].str()}"
    if error.args[0].code() in _KAFKA_REFUSES:
        return _failed(f"Kafka refuses ({reason}); `streamstate acl kafka` prints the required rights", Exit.REFUSED)
    message = f"Kafka does not answer at {_servers().kafka} ({reason}); check the brokers and STREAMSTATE_KAFKA"
    return _failed(message, Exit.UNREACHABLE, getattr(error, "__notes__", ()))


def _servers() -> CommandSettings:
    """The settings with the servers' addresses; the defaults, where a process has others."""
    with suppress(Misconfigured):
        return load(CommandSettings)
    return CommandSettings.model_construct()


def _failed(message: str, status: Exit, notes: Iterable[str] = ()) -> typer.Exit:
    lines = [f"streamstate: {' '.join(message.split())}", *(f"  {note}" for note in notes)]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    return typer.Exit(status)
