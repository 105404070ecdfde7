"""A model of promotions: whatever is killed and however steps interleave, each record is published exactly once.

Streams of two releases, each in four steps (fetch, read the record, publish, commit), producers, and a command, killed
before and after each of its writes and run again.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from streamstate.releases.record import Releases, encoded, first, next_write, staged

PARTITIONS = 3
NAMES = ("old", "new")
MARGIN = 6
"""How far cuts are ahead of the topics."""

MOST_MEANWHILE = MARGIN
"""Records that come to a partition between a command's look at the ends and its write, at most."""


@dataclass
class World:
    """A topic, the stored record, and what was published."""

    dice: random.Random
    record: Releases = field(default_factory=lambda: staged(first("old"), "new"))
    ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    published: Counter[tuple[int, int]] = field(default_factory=Counter)
    positions: dict[tuple[str, int], int] = field(default_factory=Counter)
    meanwhile: list[int] | None = None

    @property
    def behind(self) -> bool:
        return any(self.positions[name, p] < self.ends[p] for name in NAMES for p in range(PARTITIONS))

    def produce(self) -> None:
        partition = self.dice.randrange(PARTITIONS)
        if self.meanwhile is None:
            self.ends[partition] += self.dice.randrange(4)
        elif self.meanwhile[partition] < MOST_MEANWHILE:
            self.meanwhile[partition] += 1
            self.ends[partition] += 1

    def stream(self, name: str, partition: int) -> Iterator[None]:
        """One writer, for ever. It is not killed between publishing and committing: a repeat would have its marker."""
        while True:
            begin, end = self.positions[name, partition], self.ends[partition]
            if end > begin and self.dice.random() < 0.7:
                end = self.dice.randrange(begin, end) + 1
            yield
            known = self.record
            yield
            mine = [at for at in range(begin, end) if known.publishes(name, ("in", partition), at)]
            yield
            self.published.update((partition, at) for at in mine)
            self.positions[name, partition] = end
            yield

    def command(self, name: str) -> Iterator[None]:
        """Promote `name`; each yield is a moment at which the command may be killed."""
        while True:
            record, self.meanwhile = self.record, [0] * PARTITIONS
            cuts = {("in", p): end + MARGIN for p, end in enumerate(self.ends)}
            yield
            least = {("in", p): min(self.positions[each, p] for each in NAMES) for p in range(PARTITIONS)}
            after = next_write(record, name, cuts, least)
            if after is None:
                break
            if after.live != record.live:
                reached = [self.positions[record.live, p] for p in range(PARTITIONS)]
                while any(self.positions[name, p] < at for p, at in enumerate(reached)):
                    self.meanwhile = None
                    yield
            if encoded(self.record) == encoded(record):
                self.record = after
            self.meanwhile = None
            yield
        self.meanwhile = None

    def operate(self) -> Iterator[None]:
        """Promotions, for ever; a killed command is run again."""
        while True:
            name = self.dice.choice(NAMES)
            command = self.command(name)
            while next(command, "done") != "done":
                if self.dice.random() < 0.15:
                    command, self.meanwhile = self.command(name), None
                yield
            while self.dice.random() < 0.7:
                yield


def speeds(dice: random.Random, streams: int) -> list[float]:
    """The chances of streams, for a while: slow ones, stopped ones, at times all of them."""
    all_stopped = dice.random() < 0.4
    return [0.0 if all_stopped else dice.choice((0.0, 0.2, 1.0, 3.0)) for _ in range(streams)]


def run(seed: int) -> World:
    dice = random.Random(seed)
    world = World(dice)
    streams = [world.stream(name, p) for name in NAMES for p in range(PARTITIONS)]
    operator = world.operate()
    for step in range(3_000):
        if step % 500 == 0:
            weights = speeds(dice, len(streams))
        choice = dice.random()
        if choice < 0.2:
            world.produce()
        elif choice < 0.4:
            next(operator)
        elif any(weights):
            next(dice.choices(streams, weights)[0])
    world.meanwhile = None
    while world.behind:
        for stream in streams:
            next(stream)
    return world


@pytest.mark.parametrize("seed", range(60))
def test_each_record_is_published_exactly_once(seed: int) -> None:
    world = run(seed)
    expected = {(p, at): 1 for p in range(PARTITIONS) for at in range(world.ends[p])}
    assert dict(world.published) == expected
    assert sum(world.ends) > 200


def test_the_model_has_promotions() -> None:
    turns = [run(seed).record.number for seed in range(20)]
    assert sum(turns) > 60


def test_the_model_finds_a_cut_that_is_not_ahead() -> None:
    """Without a margin, a record comes between look and write, and is published twice or not at all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.laws.test_release_model.MARGIN", -3)
        wrong = 0
        for seed in range(60):
            world = run(seed)
            wrong += dict(world.published) != {(p, at): 1 for p in range(PARTITIONS) for at in range(world.ends[p])}
    assert wrong
