"""A steady load of listening events."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from devkit.bench.data import Data
from devkit.repeating import repeating
from services.events import LISTENING_EVENTS
from streamstate.kafka.producer import producer

RATE = 5_000
_DRAWN = 200_000
_TICK_S = 0.02


@dataclass
class Sent:
    """How many events were sent so far, and in how many seconds."""

    events: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return self.events / self.seconds


@contextmanager
def steady(bootstrap: str, data: Data) -> Iterator[Sent]:
    """Send `RATE` events a second of `data` for as long as the block runs."""
    sent, drawn, out = Sent(), data.current_events(_DRAWN), producer(bootstrap)
    started, tick = time.monotonic(), int(RATE * _TICK_S)

    def send() -> None:
        first = sent.events % _DRAWN
        for key, value in drawn[first : first + tick]:
            out.produce(LISTENING_EVENTS, value, key)
        out.poll(0)
        sent.events += tick
        sent.seconds = time.monotonic() - started
        time.sleep(max(0.0, sent.events / RATE - sent.seconds))

    with repeating(send):
        yield sent
    out.flush()
