"""A model of hand-overs: however steps interleave and whatever is killed, readers see each output, in order.

Two or three releases, each with a stream of each partition in steps (read the record, publish, commit), hanging streams
among them, killed processes of the past that go on publishing, producers that fail in the middle of a batch, and
commands that are killed between any two writes. The releases' own decisions and the stores' own fences run.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.errors import Declined, Fenced, Superseded
from streamstate.releases import record as decisions
from streamstate.releases.record import (
    Publishing,
    Releases,
    cancelled,
    completed,
    first,
    handed_over,
    handing_over,
    staged,
    switched,
)
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Commit, OffsetAdvance, Snapshot, positions_of

TOPIC, PARTITIONS = "in", 2
NAMES = ("one", "two", "three")
STEPS = 700
MOST = 7
"""Records of a batch or a burst."""


@dataclass
class World:
    """A topic, the record, the states, and the derived topic: the causes of its records, in their order."""

    dice: random.Random
    names: tuple[str, ...]
    record: Releases = field(default_factory=lambda: first(NAMES[0]))
    ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    sent: list[list[int]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    stores: dict[str, MemoryStore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.names:
            self.stores[name] = MemoryStore()
            if name != self.record.live:
                self.record = switched(staged(self.record, name), name)

    def replace(self, before: Releases, after: Releases) -> None:
        if self.record != before:
            raise Declined
        self.record = after

    def position(self, name: str, partition: int) -> int:
        return self.stores[name].read({partition: ()})[partition].positions.get(TOPIC, 0)

    def folded(self, partition: int) -> list[int]:
        """What a fold without repeats takes of the derived topic."""
        taken, last = [], -1
        for offset in self.sent[partition]:
            if offset > last:
                taken.append(offset)
                last = offset
        return taken

    @property
    def complete(self) -> bool:
        at = (self.position(name, p) >= self.ends[p] for name in self.names for p in range(PARTITIONS))
        return all(at) and not self.record.former and not self.record.successor


def stream(world: World, name: str, partition: int) -> Iterator[None]:
    """One process: it publishes and commits until another process has claimed the partition."""
    store = world.stores[name]
    claim = store.claim(partition, name, {})
    while True:
        begin = world.position(name, partition)
        end = min(world.ends[partition], begin + 1 + world.dice.randrange(MOST))
        if end <= begin:
            yield
            continue
        yield
        publishing = Publishing(name, world.record)
        if publishing.waits:
            yield
            continue
        yield
        mine = [offset for offset in range(begin, end) if publishing.publishes((TOPIC, partition), offset)]
        delivered = len(mine) if world.dice.random() < 0.9 else world.dice.randrange(len(mine) + 1)
        for offset in mine[:delivered]:
            world.sent[partition].append(offset)
            if world.dice.random() < 0.2:
                yield
        yield
        if delivered < len(mine):
            continue
        step = OffsetAdvance(TOPIC, begin or None, end)
        try:
            store.commit(Commit(claim, [step], (), record=publishing.number))
        except Superseded:
            pass
        except Fenced:
            return
        yield


def started(world: World, name: str, partition: int) -> Iterator[None]:
    """A process that has claimed its partition."""
    process = stream(world, name, partition)
    next(process)
    return process


def command(world: World, name: str) -> Iterator[None]:
    """Promote `name` as far as possible; each yield is a moment at which the command may be killed."""
    record = world.record
    if record.live != name:
        yield
        world.replace(record, switched(record, name))
    yield
    while (record := world.record).successor or record.former:
        complete(world, record)
        yield
    if record.publisher == record.live:
        return
    yield
    world.replace(record, begun := handing_over(record))
    yield
    fenced = []
    for release in (record.publisher, record.live):
        held: dict[int, Snapshot] = {}
        for partition in world.dice.sample(range(PARTITIONS), PARTITIONS):
            held |= world.stores[release].fence([partition], begun.number)
            yield
        fenced.append(positions_of(held))
    world.replace(begun, handed_over(begun, *fenced))


def complete(world: World, record: Releases) -> None:
    """As commands and the streams of the former publisher do."""
    if record.former:
        at = {(TOPIC, p): world.position(record.former, p) for p in range(PARTITIONS)}
        if not record.owes(record.former, at):
            world.replace(record, completed(record))


def tend(world: World) -> Iterator[None]:
    """Streams undo a hand-over that has no end: they never know whether its command was killed, or is slow."""
    while True:
        record = world.record
        yield
        with suppress(Declined):
            if record.successor and world.dice.random() < 0.3:
                world.replace(record, cancelled(record))
            complete(world, record)


def operate(world: World) -> Iterator[None]:
    """Promotions and ways back, for ever, some of them at the same time; any command may be killed, or hang."""
    running: list[Iterator[None]] = []
    while True:
        if len(running) < 2 and world.dice.random() < 0.3:
            running.append(command(world, world.dice.choice(world.names)))
        for each in [*running]:
            chance = world.dice.random()
            ended = chance < 0.05
            with suppress(Declined):
                ended = ended or (chance < 0.8 and next(each, "done") == "done")
                chance = 1.0
            if ended or chance < 1.0:
                running.remove(each)
        yield


def run(dice: random.Random, releases: int) -> World:
    world = World(dice, NAMES[:releases])
    places = [(name, p) for name in world.names for p in range(PARTITIONS)]
    streams, past = {place: started(world, *place) for place in places}, list[Iterator[None]]()
    others = [operate(world), tend(world)]
    weights = [1.0] * len(places)
    for step in range(STEPS):
        if step % 100 == 0:
            weights = [dice.choice((0.0, 0.2, 1.0, 3.0)) for _ in places]
        choice = dice.random()
        if choice < 0.15:
            world.ends[dice.randrange(PARTITIONS)] += dice.choice((1, 1, MOST))
        elif choice < 0.45:
            next(others[choice < 0.3])
        elif choice < 0.48:
            # Killed, or taken for dead: it may go on.
            place = dice.choice(places)
            past.append(streams[place])
            streams[place] = started(world, *place)
        elif choice < 0.55 and past:
            next(dice.choice(past), None)
        elif any(weights):
            next(streams[dice.choices(places, weights)[0]])
    settle(world, [*streams.values(), others[1], *past])
    return world


def settle(world: World, processes: list[Iterator[None]]) -> None:
    for _ in range(STEPS):
        if world.complete:
            return
        for each in processes:
            next(each, None)
    msg = f"no end: {world.record}"
    raise AssertionError(msg)


def lost(world: World) -> list[tuple[int, int]]:
    """The causes whose outputs a reader never folds."""
    taken = [world.folded(p) for p in range(PARTITIONS)]
    return [(p, offset) for p in range(PARTITIONS) for offset in range(world.ends[p]) if offset not in taken[p]]


def lost_by_seed(seed: int, releases: int) -> list[tuple[int, int]]:
    return lost(run(random.Random(seed), releases))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), releases=st.sampled_from([2, 3]))
def test_each_output_is_published_in_order_and_folded_once(seed: int, releases: int) -> None:
    assert lost_by_seed(seed, releases) == []


def test_the_model_has_hand_overs() -> None:
    assert sum(run(random.Random(seed), 2).record.number for seed in range(10)) > 200


def without_the_wait(patch: pytest.MonkeyPatch) -> None:
    """A new publisher does not wait for the former one."""
    patch.setattr(Publishing, "waits", "")


def without_the_fence(patch: pytest.MonkeyPatch) -> None:
    """A commit by an earlier record is not refused."""
    commit = MemoryStore.commit
    patch.setattr(MemoryStore, "commit", lambda store, each: commit(store, replace(each, record=None)))


def from_the_least(patch: pytest.MonkeyPatch) -> None:
    """The cut is the lesser of both positions."""
    patch.setattr(decisions, "max", min, raising=False)


def with_a_debt(patch: pytest.MonkeyPatch) -> None:
    """A former publisher is forgotten before it has reached the cuts."""
    patch.setattr(Releases, "owes", lambda *_: {})


@pytest.mark.parametrize("fault", [without_the_wait, without_the_fence, from_the_least, with_a_debt])
def test_the_model_finds_a_broken_rule(fault: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        assert any(lost_by_seed(seed, 2) for seed in range(60))
