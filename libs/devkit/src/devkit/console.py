"""Topics from a terminal: `python -m devkit.console send lines 'ann:to be'`, `read`, `create`.

A record is KEY:VALUE. Keys and values are texts, or numbers in Java's eight bytes with `--key long` and `--value long`.
STREAMSTATE_KAFKA names the Kafka.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator

import typer
from confluent_kafka import Message, Producer

from devkit import topics
from streamstate import bootstrap
from streamstate.cli.output import failing
from streamstate.kafka.admin import TIMEOUT_S
from streamstate.kafka.producer import producer, send_all
from streamstate.keys import CODECS, Marker
from streamstate.settings import CommandSettings

INTERRUPTED = 130
"""The exit status of a command after Ctrl-C."""


def send(arguments: Namespace, settings: CommandSettings) -> None:
    """Send the records, and wait until Kafka has them. Raises `BadKey` for a text of another type."""
    key, value = CODECS[arguments.key], CODECS[arguments.value]
    pairs = [record.partition(arguments.separator) for record in arguments.records]
    # An empty text is a value, and no key.
    records = [(key.encode(key.parse(k)), v and value.encode(value.parse(v))) for k, _, v in pairs]
    send_all(_connected(settings), ((arguments.topic, k, v or b"", []) for k, v in records))


def read(arguments: Namespace, settings: CommandSettings) -> None:
    """Print the topic up to its current end, partition by partition; a repeated derived record is printed once.

    Raises `BadRecord` for bytes of another type.
    """
    key, value = CODECS[arguments.key], CODECS[arguments.value]
    known = bootstrap.topics(settings.kafka, settings.security)
    for message in _without_repeats(bootstrap.history(settings, known).whole(arguments.topic)):
        sys.stdout.write(f"{key.decode(message.key())}:{value.decode(message.value())}\n")


def _without_repeats(messages: Iterable[Message]) -> Iterator[Message]:
    """Drop repeats like any reader of derived topics (docs/using.md): markers rise within a partition of the source."""
    last: dict[tuple[int | None, str, int], Marker] = {}
    for message in messages:
        if marker := Marker.from_headers(message.headers()):
            place = (message.partition(), marker.topic_id, marker.partition)
            if place in last and marker <= last[place]:
                continue
            last[place] = marker
        yield message


def _connected(settings: CommandSettings) -> Producer:
    """A producer. Raises `KafkaException` where Kafka does not answer; a record alone would wait for minutes."""
    out = producer(settings.kafka, settings.security)
    out.list_topics(timeout=TIMEOUT_S)
    return out


def create(arguments: Namespace, settings: CommandSettings) -> None:
    """Create the missing topics. Raises `DevkitError` when Kafka refuses."""
    _connected(settings)
    topics.create(settings.kafka, {topic: {} for topic in arguments.topics}, arguments.partitions)


def parser() -> ArgumentParser:
    """The commands and their arguments."""
    types = ArgumentParser(add_help=False)
    for name in ("key", "value"):
        types.add_argument(f"--{name}", choices=CODECS, default="text", help=f"type of the {name}s")
    made = ArgumentParser(prog="python -m devkit.console", description="Topics from a terminal.")
    commands = made.add_subparsers(required=True)
    for run in (send, read):
        command = commands.add_parser(run.__name__, parents=[types], help=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("topic")
    commands.choices["send"].add_argument("records", nargs="+", metavar="KEY:VALUE")
    commands.choices["send"].add_argument("--separator", default=":", help="between key and value")
    command = commands.add_parser("create", help=create.__doc__)
    command.set_defaults(run=create)
    command.add_argument("topics", nargs="+", metavar="TOPIC")
    command.add_argument("--partitions", type=int, default=topics.USUAL, help="partitions of each")
    return made


def main() -> int:
    """The exit status, as of `streamstate`, with the reason of a failure on standard error."""
    arguments = parser().parse_args()
    try:
        with failing():
            arguments.run(arguments, bootstrap.configure(CommandSettings))
    except typer.Exit as ended:
        return ended.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
