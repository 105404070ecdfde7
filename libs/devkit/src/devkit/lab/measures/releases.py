"""A change of a fold under load, each step by its command, and what it did to clients and to derived topics."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from urllib3 import BaseHTTPResponse

from devkit import DevkitError
from devkit.cluster.local_cluster import LocalCluster, variables
from devkit.demo import say
from devkit.events import records
from devkit.events.feed import now_ms
from devkit.lab.listeners import Heard
from devkit.lab.load import Reads, Request, asking, sending
from devkit.lab.targets import Target
from services.events import LISTENING_EVENTS
from services.notifications.model import NOTIFICATIONS, OPEN, TICK
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import Outgoing, producer, send_all
from streamstate.kafka.reading import read_to_end
from streamstate.keys import Marker

CHANGED = PROFILE, NOTIFICATIONS_SERVICE = "habits", "notifications"
SWITCHES = 3
"""The promotions and the way back of a cycle: each may tell one event to a watcher."""

STREAMSTATE = Path(sys.executable).with_name("streamstate")
BEFORE = "before"
"""The step without a command, for comparison."""

COMMANDS = ("stage", "wait", "diff", "promote", "back", "promote", "drop")
_DIFFERENT = 1
"""The exit status of `diff` for releases with different answers."""

USERS = 20_000
"""Listeners with events under load, a play in ten seconds each. Users beyond have a single play, and are watched."""
CLOSED = 50
"""Users of notifications: each tick of them is a message."""
TICKS_PER_S = 100
MANY, READERS = 40, 4


class Load:
    """Feeds and reads at steady rates while `running`, of `events` and `reads` a second; `quiet` users are watched."""

    def __init__(self, kafka: str, url: str, events: int, reads: int, watched: int) -> None:
        self._kafka = kafka
        self._url = url
        self._rates = events, reads
        self._plays = map(self._play, itertools.count())
        self.quiet = range(USERS + 1, USERS + 1 + watched)
        self.reads = Reads()

    def prepare(self, backlog: int) -> None:
        """Send a play of each watched user, a backlog of the others, and close the users of notifications."""
        out, past = producer(self._kafka), now_ms() - 60_000
        send_all(out, ((LISTENING_EVENTS, *records.detailed_event(user, 1, 1, 1, past), []) for user in self.quiet))
        send_all(out, itertools.islice(self._plays, backlog))
        send_all(out, (_text(OPEN, user, "Closed") for user in range(CLOSED)))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Feed and read while the body runs."""
        events, reads = self._rates
        ticks = (_text(TICK, user, "") for user in itertools.cycle(range(CLOSED)))
        with ExitStack() as stack:
            stack.enter_context(sending(self._kafka, self._plays, events))
            stack.enter_context(sending(self._kafka, ticks, TICKS_PER_S))
            stack.enter_context(asking(self._url, self._request, self.reads, reads, READERS))
            yield

    def _play(self, number: int) -> Outgoing:
        play = records.detailed_event(1 + number % USERS, number % 97, number % 89, number % 83, now_ms())
        return LISTENING_EVENTS, *play, []

    def _request(self, number: int) -> Request:
        user = 1 + 7 * number % USERS
        if number % 4 == 0:
            keys = [1 + (user + other) % USERS for other in range(MANY)]
            return Request(user, "/v1/many", _of_one_release, json.dumps({PROFILE: keys, "metrics": keys}))
        if number % 4 == 1:
            return Request(user, f"/v1/notifications/user-{number % CLOSED}?limit=5", _complete)
        return Request(user, f"/v1/users/{user}?parts=metrics,{PROFILE}", _complete)


def _text(topic: str, user: int, value: str) -> Outgoing:
    return topic, f"user-{user}".encode(), value.encode(), []


def _complete(answer: BaseHTTPResponse) -> tuple[str, str]:
    if answer.status != 200:
        return str(answer.status), ""
    return "incomplete" if answer.json().get("warnings") else "", ""


def _of_one_release(answer: BaseHTTPResponse) -> tuple[str, str]:
    """The profiles of many keys have the same members unless two releases have answered."""
    failure, _ = _complete(answer)
    shapes = set() if failure else {frozenset(profile) for profile in answer.json()[PROFILE].values() if profile}
    return failure, "two releases" if len(shapes) > 1 else ""


@dataclass
class Cycle:
    """The change of `service`: the reads of each step, and the answers of the commands, in their order."""

    service: str
    reads: list[tuple[str, Reads]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    def answer(self, command: str) -> Any:
        """The answer of the first run of `command`."""
        return self.answers[COMMANDS.index(command)]

    def targets(self, differing: int) -> Iterator[Target]:
        """The targets of a cycle; `differing` are keys of the new release that differ from the replay."""
        name, steps, total = self.service, dict(self.reads), sum(len(reads.all) for _, reads in self.reads)
        kinds = ", ".join(f"{step} {dict(reads.kinds)}" for step, reads in self.reads if reads.failed)
        failed, mixed = (sum(counts) for counts in zip(*((r.failed, len(r.wrong)) for _, r in self.reads), strict=True))
        yield Target(f"{name}: failed reads of {total:,}{f' ({kinds})' if kinds else ''}", failed, 0)
        yield Target(f"{name}: answers of two releases", mixed, 0)
        yield Target(f"{name}: keys that differ from the replay", differing, 0)
        slower = steps["wait"].ms(99) / steps[BEFORE].ms(99)
        yield Target(f"{name}: p99 of reads during the build over before", slower, 2, unit="x")
        yield Target(f"{name}: the way back", self.answer("back")["seconds"], 1, unit="s")
        yield Target(f"{name}: outputs on the way back pause", self.answer("back")["paused_seconds"], 1, unit="s")


@dataclass(frozen=True)
class FoldChange:
    """Runs cycles in `cluster` under `load`. `pause_s` is the time of a step after its command."""

    cluster: LocalCluster
    load: Load
    pause_s: float

    def run(self, service: str, settings: Mapping[str, str]) -> Cycle:
        """Change `service` to a release with `settings`. Raises `DevkitError` for a command that fails."""
        cycle = Cycle(service)
        sets = [argument for name, text in settings.items() for argument in ("--set", f"{name}={text}")]
        further = {"stage": sets, "drop": ["--yes"]}
        self.load.reads.take()
        for command in (BEFORE, *COMMANDS):
            if command != BEFORE:
                say(f"streamstate {command} {service}")
                cycle.answers.append(self.command(command, service, *further.get(command, ())))
            time.sleep(self.pause_s)
            cycle.reads.append((command, self.load.reads.take()))
        return cycle

    def differences(self, cycle: Cycle) -> int:
        """How many keys of the new release's state differ from the replay of its topics."""
        (report,) = self.command("verify", cycle.answer("stage")["release"])
        return len(report["differences"])

    def command(self, *arguments: str) -> Any:
        """The JSON of `streamstate`. Raises `DevkitError`."""
        environment = {**os.environ, **variables(self.cluster.variables)}
        argv = [str(STREAMSTATE), *arguments, "--json"]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment)
        if done.returncode not in (0, _DIFFERENT if arguments[0] == "diff" else 0):
            msg = f"streamstate {' '.join(arguments)}: {done.stderr or done.stdout}"
            raise DevkitError(msg)
        return json.loads(done.stdout)


def of_watchers(heard: Mapping[int, Heard], opened: Mapping[int, int], cycles: Sequence[Cycle]) -> Iterator[Target]:
    """The targets of streams of users without new events. opened: events of each before the first cycle."""
    most = max((len(watcher.events) - opened[user] for user, watcher in heard.items()), default=0)
    yield Target(f"broken streams of {len(heard):,}", sum(watcher.ended for watcher in heard.values()), 0)
    yield Target("most events of a stream, for all switches", most, SWITCHES * len(cycles))


def of_messages(kafka: str, topics: Topics) -> Iterator[Target]:
    """The targets of the derived topic of messages: one for each tick, by its marker."""
    places = {(NOTIFICATIONS.topic, p): 0 for p in range(topics.partitions(NOTIFICATIONS.topic))}
    tick_id = topics.origin(TICK).id
    messages: Counter[tuple[int, int]] = Counter()
    for message in read_to_end(kafka, places):
        marker = Marker.from_headers(message.headers())
        if marker and marker.topic_id == tick_id:
            messages[marker.partition, marker.offset] += 1
    ticks = topics.ends([(TICK, p) for p in range(topics.partitions(TICK))])
    sent = sum(ticks.values())
    yield Target(f"repeated messages of {sent:,} ticks", messages.total() - len(messages), 0)
    yield Target("missing messages", sent - len(messages), 0)
