"""The rights of a service at Kafka: topics, consumer groups and transactional ids, each with its operations."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from streamstate.app import App
from streamstate.kafka.reading import GROUP

Kind = Literal["topic", "group", "transactional-id"]


@dataclass(frozen=True)
class Right:
    """`operations` on the resource `name`; `why` names the process with the need."""

    kind: Kind
    name: str
    operations: tuple[str, ...]
    why: str


def of_service(app: App, deletions: str = "") -> Iterator[Right]:
    """The rights of the stream and the API of `app`, with the topic `deletions` of users, if there is one.

    The right to write to a topic includes idempotent producing.
    """
    if deletions:
        yield Right("topic", deletions, ("Read", "Write", "Describe", "DescribeConfigs"), "deletions of users")
    for topic in dict.fromkeys(app.topics):
        yield Right("topic", topic, ("Read", "Describe", "DescribeConfigs"), "input")
    for topic in app.emits:
        yield Right("topic", app.output(topic), ("Write", "Describe"), "output")
    yield Right("topic", app.dead_letters, ("Read", "Write", "Describe", "DescribeConfigs"), "dead letters")
    yield Right("group", app.group, ("Read", "Describe"), "members and lag of the stream")
    yield Right("group", GROUP, ("Describe",), "reading without commits")
    if app.totals:
        for totals in app.totals:
            yield Right("topic", totals.topic, ("Write", "Describe"), "totals")
        yield Right("group", f"{app.group}-totals", ("Read", "Describe"), "the position of the totals")
        yield Right("transactional-id", f"{app.group}-totals", ("Write", "Describe"), "the publisher of totals")


def of_archiver(topics: Iterable[str], group: str, deletions: str = "") -> Iterator[Right]:
    """The rights of an archiver of `topics` in the consumer group `group`, and of the commands about its archive."""
    if deletions:
        yield Right("topic", deletions, ("Read", "Describe"), "archive compact, archive verify")
    for topic in topics:
        yield Right("topic", topic, ("Read", "Describe", "DescribeConfigs"), "archive")
    yield Right("group", group, ("Read", "Describe"), "members and lag of archivers")
    yield Right("group", GROUP, ("Describe",), "reading without commits")


def of_operators(app: App) -> Iterator[Right]:
    """The additional rights of the operators' commands."""
    for topic in dict.fromkeys(app.topics):
        yield Right("topic", topic, ("Write",), "dlq replay")
    yield Right("group", app.group, ("Delete",), "drop")
    yield Right("transactional-id", f"{app.group}-replay", ("Write", "Describe"), "dlq replay")
    for topic in (*map(app.output, app.emits), *(totals.topic for totals in app.totals)):
        yield Right("topic", topic, ("Read",), "verify, reset --totals")


def command(right: Right, principal: str, bootstrap: str) -> str:
    """Kafka's command that grants `right` to `principal`, such as `User:metrics`."""
    operations = " ".join(f"--operation {operation}" for operation in right.operations)
    admin = f'kafka-acls.sh --bootstrap-server {bootstrap} --command-config "$ADMIN" --add --force'
    return f"{admin} --allow-principal '{principal}' {operations} --{right.kind} '{right.name}'"
