"""Records into Kafka, from the generator or from files, once: a restart does not feed again."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from confluent_kafka import Producer

from devkit import DevkitError
from devkit.events import cases, sample_events
from devkit.events.lfm import Files
from devkit.events.records import Event, Name, Recode
from devkit.events.sample_events import Clock
from services.events import LISTENING_EVENTS
from streamstate.kafka.producer import present, producer, send_all

SEED = 1
USERS = 1_000
BACKLOG = 30_000
BACKLOG_MS = 45 * 24 * 3_600_000
"""The plays from before the start are spread over this time, so that no two windows of a profile have the same."""
LIVE_PER_S = 200
CASES = 3_000
CASES_PER_S = 6
"""Records for the services other than music, past and live."""
TICK_S = 60
"""The interval between ticks of every user; further ticks are among the cases."""
_SLICE = 50_000


class Feed:
    """A source of records. `marker` is a file with the name of the source in this Kafka.

    recode: converts JSON and text to the format `value` of the topics.
    """

    def __init__(
        self, bootstrap: str, marker: Path, files: Files | None = None, value: str = "", recode: Recode = iter
    ) -> None:
        self._out = producer(bootstrap)
        self._recode = recode
        self._marker = marker
        self._files = files
        self._format = f", as {value}" if value else ""
        self._cases = cases.records(SEED)
        self._catalogue = sample_events.Catalogue.make(SEED)

    def load(self, say: Callable[[str], None]) -> None:
        """Feed names and past events, unless Kafka has the source already.

        Raises `DevkitError` when Kafka has another source, and, before the first record is sent, for a malformed line.
        """
        files = self._files
        source = f"{files or f'the generator, seed {SEED}'}{self._format}"
        held = self._marker.read_text() if self._marker.exists() else ""
        if held == source:
            say(f"Kafka holds {source} already")
            return
        if held:
            msg = f"Kafka holds {held}, but {source} is asked for; run make demo-clean to start anew"
            raise DevkitError(msg)
        if files:
            files.check()
        self._marker.write_text(f"a part of {source}")
        say(f"feeding {source} (5 to 20 s; once)")
        if files:
            named = send_names(self._out, files.names(), self._recode)
            count = send_events(self._out, files.events(), self._recode)
        else:
            named, count = self._send_past()
            say(f"1 of {sample_events.BROKEN:,} plays is broken on purpose: a dead letter")
        if files and files.skipped:
            say(files.skipped)
        others = send_all(self._out, self._recode(itertools.islice(self._cases, CASES)))
        self._marker.write_text(source)
        say(f"fed {named} names, {count} events, and {others} records for the other services")

    def live(self) -> Iterator[int]:
        """Feed at a steady pace while iterated; yields the number of sent events each second.

        Files have no live events.
        """
        events = sample_events.events(self._catalogue, now_ms(), USERS, now_ms)
        for second in itertools.count():
            if second % TICK_S == 0:
                send_all(self._out, self._recode(cases.ticks()))
            send_all(self._out, self._recode(itertools.islice(self._cases, CASES_PER_S)))
            now = itertools.islice(events, LIVE_PER_S)
            yield send_events(self._out, now, self._recode) if self._files is None else 0
            time.sleep(1)

    def _send_past(self) -> tuple[int, int]:
        """Send names, and plays with the times of the plays as Kafka's timestamps; returns the counts."""
        end = now_ms()
        clock, timestamps = (sample_events.backlog(BACKLOG, BACKLOG_MS, lambda: end) for _ in range(2))
        plays = itertools.islice(sample_events.events(self._catalogue, SEED, USERS, clock), BACKLOG)
        # A build anew joins by time: the names come before the plays.
        named = send_names(self._out, sample_events.names(self._catalogue), self._recode, lambda: end - BACKLOG_MS)
        return named, send_events(self._out, plays, self._recode, timestamps)


def invented(seed: int, users: int) -> tuple[Iterator[Name], Iterator[Event]]:
    """Names, and endless current events of `users` users, without broken events."""
    catalogue = sample_events.Catalogue.make(seed)
    return sample_events.names(catalogue), sample_events.events(catalogue, seed, users, now_ms, broken=0)


def send_events(out: Producer, events: Iterable[Event], recode: Recode = iter, clock: Clock = present) -> int:
    """Send listening events, wait for Kafka's acknowledgements, and return the count.

    clock: gives the timestamp of each record.
    """
    pairs, count = iter(events), 0
    while batch := list(itertools.islice(pairs, _SLICE)):
        count += send_all(out, recode((LISTENING_EVENTS, key, value, []) for key, value in batch), clock=clock)
    return count


def send_names(out: Producer, names: Iterable[Name], recode: Recode = iter, clock: Clock = present) -> int:
    """Send names to their topics, wait for Kafka's acknowledgements, and return the count; `clock` as above."""
    return send_all(out, recode((*name, []) for name in names), clock=clock)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
