"""Outputs of several releases in one topic: once, in the order of their causes, wherever the releases are."""

import random
from dataclasses import dataclass, field

import pytest

from streamstate.releases import order
from streamstate.releases.order import Order
from streamstate.releases.record import Place, Releases, Voice, first, next_write, staged

PLACE: Place = "plays", 0
NAMES = "metrics", "metrics-2"


@dataclass
class Topic:
    """The offsets of causes, as the releases publish them. `end`: of the input."""

    dice: random.Random
    record: Releases = field(default_factory=lambda: staged(first(NAMES[0]), NAMES[1]))
    end: int = 0
    published: list[int] = field(default_factory=list)

    def promote(self, name: str) -> None:
        cut = self.end + self.dice.randrange(1, 8)
        while (after := next_write(self.record, name, {PLACE: cut})) is not None:
            self.record = after


class Release:
    """Folds the topic in batches of any size. While a release waits, the other goes on."""

    def __init__(self, name: str, topic: Topic, releases: dict[str, "Release"], patience_s: float = 1) -> None:
        self.position = 0
        self._voice, self._topic, self._releases = Voice(name), topic, releases
        self._order = Order(lambda: Voice(name, topic.record), self._reached, patience_s)

    def fold(self) -> None:
        size = self._topic.dice.randrange(1, 40)
        if batch := range(self.position, min(self.position + size, self._topic.end)):
            self._voice = Voice(self._voice.release, self._topic.record)
            self._publish(batch)

    def _publish(self, batch: range) -> None:
        # Every fifth record has an output.
        own = [offset for offset in batch if offset % 5 == 0 and self._voice.publishes(PLACE, offset)]
        between = {PLACE: (batch[0], own[-1])} if own else {}
        if self._order.divides(between):
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]):
                self._publish(part)
            return
        self._order.wait(between)
        self._topic.published += own
        self.position = batch[-1] + 1

    def _reached(self, name: str, _place: Place) -> int:
        self._releases[name].fold()
        return self._releases[name].position


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "PAUSE_S", 0)


def run(seed: int, *, settled: bool) -> Topic:
    """The topic after four promotions with one release behind; `settled`: each after the cut before."""
    dice = random.Random(seed)
    topic, releases = Topic(dice), dict[str, Release]()
    for name in NAMES:
        releases[name] = Release(name, topic, releases)

    def fold_all() -> None:
        while any(release.position < topic.end for release in releases.values()):
            for release in releases.values():
                release.fold()

    for step in range(4):
        topic.promote(NAMES[(step + 1) % 2])
        for _ in range(dice.randrange(6)):
            topic.end += dice.randrange(30)
            releases[dice.choice([NAMES[seed % 2], *NAMES])].fold()
        if settled:
            topic.end += 10
            fold_all()
    topic.end += 50
    fold_all()
    return topic


@pytest.mark.parametrize("seed", range(100))
def test_outputs_are_in_the_order_of_their_causes_through_promotions(seed: int) -> None:
    topic = run(seed, settled=True)
    assert topic.published == list(range(0, topic.end, 5))


@pytest.mark.parametrize("seed", range(100))
def test_promotions_within_seconds_let_no_release_wait_in_vain(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "log", None)
    topic = run(seed, settled=False)
    assert sorted(topic.published) == list(range(0, topic.end, 5))


def test_a_release_that_makes_no_progress_is_awaited_for_a_while() -> None:
    topic = Topic(random.Random(1))
    releases: dict[str, Release] = {}
    new = Release(NAMES[1], topic, releases, patience_s=0.01)
    stopped = releases[NAMES[0]] = Release(NAMES[0], topic, releases)
    stopped.fold = lambda: None  # type: ignore[method-assign]
    topic.promote(NAMES[1])
    topic.end = 100
    while new.position < 100:
        new.fold()
    assert topic.published == [offset for offset in range(0, 100, 5) if topic.record.publishes(NAMES[1], PLACE, offset)]
