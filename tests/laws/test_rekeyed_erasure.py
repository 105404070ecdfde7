"""A deleted user is in no state of a profile with the key from the value, by whatever way the state is reached."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.erasure.applying import personal
from streamstate.erasure.stream import Erasure
from streamstate.processing.decode import RawRecord
from streamstate.profile.file import parse
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin
from streamstate.testing import FixedTopics
from tests.deletions import InMemory
from tests.laws.test_rekeyed_profiles import Chain

INPUTS, USERS = 2, (1, 2)
YAML = """
name: {name}
topic: orders
key: value.{member}
path: /v1/users/<key>/{name}
fields: {{{member}: {kind}, cents: int}}
measures:
  orders: {{count: all, over: ever}}
rules:
  many: {{when: {{orders: {{gt: 2}}}}, over: ever}}
"""
PROFILES: Mapping[str, tuple[str, str, int]] = {
    "sales": ("id", "int", 3),
    "wide": ("id", "int(text)", 5),
    "named": ("name", "str", 1),
}
"""Member, type, and partitions of the topic with the keys."""


class Deployed(Chain):
    """The stream of a profile over `world`."""

    def __init__(self, name: str, world: "World") -> None:
        member, kind, partitions = PROFILES[name]
        super().__init__(parse(YAML.format(name=name, member=member, kind=kind)), partitions)
        self.world = world
        self.keyed = self.app.topics[0]
        world.topics.counts |= {self.keyed: partitions}
        world.topics.ids |= {self.keyed: self.keyed}
        self.begin()

    def begin(self) -> None:
        """A query starts."""
        held = range(max(self.partitions, INPUTS))
        origins = {topic: self.world.topics.origin(topic) for topic in self.app.topics}
        self.claims = {p: self.store.claim(p, "driver:1", {}, origins) for p in held}
        left_out = Erasure(self.app, self.store, self.world.deletions).apply(self.claims, origins)
        self.folds = {p: personal(self.app, p, left_out, keep_seen=False) for p in held}

    def lose(self) -> None:
        """The state is emptied, and the topic with the keys made anew."""
        self.world.topics.ids[self.keyed] += "+"
        self.store = MemoryStore()
        self.logs, self.markers = [[[] for _ in range(self.partitions)], [{} for _ in range(self.partitions)]]
        self.tell()
        self.begin()

    def send(self, size: int = 99) -> None:
        for partition, log in enumerate(self.world.inputs):
            self.step(partition, "orders", log, {}, size, killed=False)
        self.tell()

    def fold(self, size: int = 99) -> None:
        for partition in range(self.partitions):
            self.step(partition, self.keyed, self.logs[partition], self.markers[partition], size, killed=False)

    def tell(self) -> None:
        self.world.topics.written |= {(self.keyed, p): len(log) for p, log in enumerate(self.logs)}

    def values(self) -> Iterator[bytes]:
        """The values in the topic with the keys."""
        yield from (value or b"" for log in self.logs for *_, value in log)

    def count(self, user: int) -> int:
        answer = msgspec.to_builtins(self.view(self.app.name, user))
        return int(answer["orders"]) if answer else 0

    def holds(self, user: int) -> bool:
        """Whether anything in the state is of the user."""
        (_, users), *_ = self.app.user_folds
        reads = [place.read for place in users.places(self.app.sources[0].key.parse(str(user)))]
        return any(any(of.values) for of in self.store.read(dict.fromkeys(self.claims, reads)).values())


class Ids(FixedTopics):
    """Topics with `ids`."""

    def __init__(self) -> None:
        super().__init__({"orders": INPUTS, "user-deletions": 1})
        self.ids = {"orders": "id", "user-deletions": "deletions"}

    def origin(self, topic: str) -> Origin:
        return Origin(self.ids[topic], self.counts[topic])


class World:
    """The orders, the deletions, and the profiles over both."""

    def __init__(self) -> None:
        self.topics = Ids()
        self.deletions = InMemory(self.topics)
        self.inputs: list[list[RawRecord]] = [[] for _ in range(INPUTS)]
        self.remaining = Counter[int]()
        self.profiles: dict[str, Deployed] = {}
        self.deploy("sales")

    def deploy(self, name: str) -> None:
        if name not in self.profiles:
            self.profiles[name] = Deployed(name, self)

    def order(self, user: int, partition: int) -> None:
        log = self.inputs[partition]
        value = msgspec.json.encode({"id": user, "name": str(user), "cents": 5})
        log.append((len(log), len(log) + 1, None, value))
        self.topics.written["orders", partition] = len(log)
        self.remaining[user] += 1

    def act(self, name: str, size: int = 99) -> None:
        for profile in self.profiles.values():
            profile.begin() if name == "begin" else getattr(profile, name)(size)

    def require_remaining(self) -> None:
        """Each profile has exactly the remaining orders, once its stream has come to the end."""
        for act in ("send", "fold"):
            self.act(act)
        for profile in self.profiles.values():
            assert {user: profile.count(user) for user in USERS} == {user: self.remaining[user] for user in USERS}
            assert {user: profile.holds(user) for user in USERS} == {user: self.remaining[user] > 0 for user in USERS}


ORDERS = st.tuples(st.sampled_from(USERS), st.integers(0, INPUTS - 1))
STEPS = st.lists(st.tuples(st.sampled_from(["send", "fold"]), st.integers(1, 4)), max_size=3)


@settings(max_examples=80)
@given(before=st.lists(ORDERS | st.sampled_from(["wide", "named", "begin"]) | STEPS, max_size=25), during=STEPS)
def test_a_deleted_user_is_in_no_state(before: list[Any], during: list[Any]) -> None:
    """`sales` is asked and the others follow; orders that a stream was still sending at the deletion are deleted."""
    world = World()
    for act in before:
        match act:
            case int(user), int(partition):
                world.order(user, partition)
            case "begin":
                world.act("begin")
            case str(name):
                world.deploy(name)
            case steps:
                for step in steps:
                    world.act(*step)
    world.deletions.request(world.profiles["sales"].app, "1")
    world.remaining[1] = 0
    for step in during:
        world.act(*step)
    world.act("begin")
    world.require_remaining()
    for name in PROFILES:
        world.deploy(name)
    world.require_remaining()
    for profile in world.profiles.values():
        profile.lose()
    world.require_remaining()
    assert not any(b'"id":1,' in value for profile in world.profiles.values() for value in profile.values())
    world.order(1, 0)
    world.require_remaining()
