"""The load of a change: events, reads of users and of many keys, ticks of closed users, and what was answered."""

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import urllib3
from urllib3.exceptions import HTTPError

from devkit.events import records
from devkit.events.feed import now_ms, send_events
from devkit.repeating import repeating
from services.notifications.model import OPEN, TICK
from streamstate.kafka.producer import Outgoing, producer, send_all

CHANGED = PROFILE, NOTIFICATIONS = "habits", "notifications"
USERS = 20_000
"""Listeners with events under load, a play in ten seconds each. Users beyond have a single play, and are watched."""
CLOSED = 50
"""Users of notifications: each tick of them is a message."""
TICKS_PER_S = 100
SLICE_S = 0.1
MANY = 40
READERS = 4
"""Clients, each with one read at a time."""


@dataclass
class ReadsSeen:
    """What reads found. ms: of each read. failed: statuses other than 200. mixed: answers of two releases."""

    ms: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    mixed: int = 0

    @property
    def p99(self) -> float:
        """Milliseconds."""
        return float(np.percentile(self.ms, 99)) if self.ms else 0.0


class Load:
    """Feeds and reads at steady rates while `running`. events, reads: a second."""

    def __init__(self, kafka: str, url: str, events: int, reads: int, watched: int) -> None:
        self._out = producer(kafka)
        self._url = url
        self._events, self._reads = events, reads
        self._pool = urllib3.PoolManager(maxsize=4, retries=False)
        self._numbers = itertools.count()
        self._plays = itertools.count()
        self.quiet = range(USERS + 1, USERS + 1 + watched)
        self.reads = ReadsSeen()

    def prepare(self, backlog: int) -> None:
        """Send a play of each watched user, a backlog of the others, and close the users of notifications."""
        past = (self._event(user, now_ms() - 60_000) for user in self.quiet)
        send_events(self._out, past)
        send_events(self._out, itertools.islice(self._listening(), backlog))
        send_all(self._out, (_text(OPEN, user, "Closed") for user in range(CLOSED)))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Feed and read while the body runs."""
        with ExitStack() as stack:
            stack.enter_context(repeating(self._feed, SLICE_S))
            for _ in range(READERS):
                stack.enter_context(repeating(self._read, READERS / self._reads))
            yield

    def renewed(self) -> ReadsSeen:
        """ReadsSeen from here on; the former ones end."""
        self.reads = ReadsSeen()
        return self.reads

    def _feed(self) -> None:
        send_events(self._out, itertools.islice(self._listening(), int(self._events * SLICE_S)))
        ticks = int(TICKS_PER_S * SLICE_S)
        send_all(self._out, (_text(TICK, next(self._numbers) % CLOSED, "") for _ in range(ticks)))

    def _listening(self) -> Iterator[tuple[bytes, bytes]]:
        while True:
            yield self._event(1 + next(self._numbers) % USERS, now_ms())

    def _event(self, user: int, moment: int) -> tuple[bytes, bytes]:
        number = next(self._plays)
        return records.detailed_event(user, number % 97, number % 89, number % 83, moment)

    def _read(self) -> None:
        number = next(self._numbers)
        user, reads = 1 + number % USERS, self.reads
        if number % 4 == 0:
            keys = [1 + (number + each) % USERS for each in range(MANY)]
            answers = self._answer(reads, "POST", "/v1/many", json.dumps({PROFILE: keys, "metrics": keys}))
            shapes = {frozenset(one) for one in (answers or {}).get(PROFILE, {}).values() if one}
            reads.mixed += len(shapes) > 1
        elif number % 4 == 1:
            self._answer(reads, "GET", f"/v1/notifications/user-{number % CLOSED}?limit=5")
        else:
            self._answer(reads, "GET", f"/v1/users/{user}?parts=metrics,{PROFILE}")

    def _answer(self, reads: ReadsSeen, method: str, path: str, body: str | None = None) -> Any:
        started = time.monotonic()
        try:
            answer = self._pool.request(method, f"{self._url}{path}", body=body, timeout=10)
        except HTTPError as error:
            reads.failed[type(error).__name__] += 1
            return None
        reads.ms.append(1_000 * (time.monotonic() - started))
        found = answer.json() if answer.status == 200 else None
        if found is None:
            reads.failed[str(answer.status)] += 1
        elif found.get("warnings"):
            reads.failed["incomplete"] += 1
        return found


def _text(topic: str, user: int, value: str) -> Outgoing:
    return topic, f"user-{user}".encode(), value.encode(), []


def total(reads: Sequence[ReadsSeen]) -> ReadsSeen:
    """All of `reads` together."""
    failed = sum((each.failed for each in reads), Counter[str]())
    return ReadsSeen([ms for each in reads for ms in each.ms], failed, sum(each.mixed for each in reads))
