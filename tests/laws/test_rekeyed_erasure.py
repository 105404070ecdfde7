"""A deleted user is in no state of a profile with the key from the value, by whatever way the state is reached.

Ways: on, another profile, another topic with the keys, a release beside, a backup, training sets and replays, a
compacted archive, and a reset with everything made anew.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.cli.archives.deleted import Deleted
from streamstate.erasure.applying import Erased, personal
from streamstate.erasure.deletions import erased
from streamstate.erasure.stream import Erasure
from streamstate.history.answers.past import Past, behind
from streamstate.history.archive.compaction import compact
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import batch, row
from streamstate.history.archive.segments import Segment
from streamstate.keys import MARKER_HEADER
from streamstate.processing.decode import RawRecord
from streamstate.profile.file import parse
from streamstate.replay.feed import MergedLogs, dated
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


RELEASES = count(1)
"""The numbers of releases beside others."""


class Deployed(Chain):
    """The stream of a profile over `world`."""

    def __init__(self, name: str, world: "World") -> None:
        self.name = name
        member, kind, partitions = PROFILES[name]
        super().__init__(parse(YAML.format(name=name, member=member, kind=kind)), partitions)
        self.world = world
        self.keyed = self.app.topics[0]
        world.topics.counts |= {self.keyed: partitions}
        world.topics.ids.setdefault(self.keyed, self.keyed)
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
        answer = msgspec.to_builtins(self.view(self.name, user))
        return int(answer["orders"]) if answer else 0

    def left_out(self) -> Erased:
        """The records of deleted users, as replays and archives leave them out."""
        ids = {topic: self.world.topics.origin(topic).id for topic in self.app.topics}
        deletions = self.world.deletions.present()
        asked = {p: deletions.asked(self.app.name, p, ids) for p in range(self.partitions)}
        return {place: of for p, each in asked.items() for place, of in erased(each, p, self.app.rekeyed).items()}

    def replayed(self) -> dict[int, int]:
        """The answers of a training set or of `replay`, at the end of the topic with the keys."""
        view = next(view for view in self.app.views if view.name == self.name)
        own = behind(self.app, view)
        records = [dated(self.messages(p), own.sources[0], 0, p, {}) for p in range(self.partitions)]
        origins = {topic: self.world.topics.origin(topic) for topic in own.topics}
        past = Past(own, origins, MergedLogs(records), {}, self.left_out())
        past.advance_until(2**62)
        answers = {user: msgspec.to_builtins(past.answer(view.ask(str(user)))) for user in USERS}
        return {user: answer["orders"] if answer else 0 for user, answer in answers.items()}

    def messages(self, partition: int) -> list[Message]:
        """The records of a partition of the topic with the keys, as of Kafka's client."""
        return [
            Message(
                topic=self.keyed,
                partition=partition,
                offset=offset,
                key=key,
                value=value,
                headers=[(MARKER_HEADER, marker)] if marker else None,
                timestamp=(1, time),
            )
            for offset, time, key, value in self.logs[partition]
            for marker in (self.markers[partition].get(offset),)
        ]

    def archived(self, folder: str) -> bytes:
        """The values in the compacted archive of the topic with the keys."""
        archive, values, deleted = Archive(folder), b"", Deleted(self.world.deletions.present())
        topic_id = self.world.topics.ids[self.keyed]
        for partition in range(self.partitions):
            place = self.keyed, partition
            if rows := [row(message) for message in self.messages(partition)]:
                archive.write(place, Segment(0, len(rows) - 1), self.keyed, [batch(rows)])
                compact(archive, place, deleted.of(place, topic_id), sent=deleted.sent(place, topic_id))
                kept = (value for each in archive.read(place, 0) for value in each["value"].to_pylist())
                values += b"".join(filter(None, kept))
        return values

    def holds(self, user: int) -> bool:
        """Whether anything in the state is of the user."""
        (_, users), *_ = self.app.user_folds
        reads = [place.read for place in users.places(self.app.sources[0].key.parse(str(user)))]
        return any(any(of.values) for of in self.store.read(dict.fromkeys(self.claims, reads)).values())


class Staged(Deployed):
    """A release beside `live`, from the same topic with the keys, which only the live release writes."""

    def __init__(self, live: Deployed) -> None:
        self.live = live
        super().__init__(live.name, live.world)

    def begin(self) -> None:
        self.app = replace(self.app, name=f"{self.name}-{next(RELEASES)}", release_of=self.name)
        self.logs, self.markers = self.live.logs, self.live.markers
        super().begin()

    def send(self, size: int = 99) -> None:
        """The live release sends."""


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

    def go_on(self, act: Any) -> None:
        match act:
            case int(user), int(partition):
                self.order(user, partition)
            case "begin":
                self.act("begin")
            case str(name):
                self.deploy(name)
            case steps:
                for step in steps:
                    self.act(*step)

    def require_remaining(self) -> None:
        """Each profile has exactly the remaining orders, once its stream has come to the end."""
        for act in ("send", "fold"):
            self.act(act)
        for profile in [*self.profiles.values(), *map(Staged, self.profiles.values())]:
            if isinstance(profile, Staged):
                profile.fold()
            assert profile.replayed() == {user: self.remaining[user] for user in USERS}
            assert {user: profile.count(user) for user in USERS} == {user: self.remaining[user] for user in USERS}
            assert {user: profile.holds(user) for user in USERS} == {user: self.remaining[user] > 0 for user in USERS}


ORDERS = st.tuples(st.sampled_from(USERS), st.integers(0, INPUTS - 1))
STEPS = st.lists(st.tuples(st.sampled_from(["send", "fold"]), st.integers(1, 4)), max_size=3)


@settings(max_examples=25)
@given(before=st.lists(ORDERS | st.sampled_from(["wide", "named", "begin"]) | STEPS, max_size=25), during=STEPS)
def test_a_deleted_user_is_in_no_state(before: list[Any], during: list[Any]) -> None:
    """`sales` is asked and the others follow; orders that a stream was still sending at the deletion are deleted."""
    world = World()
    for act in before:
        world.go_on(act)
    backups = {name: deepcopy(profile.store) for name, profile in world.profiles.items()}
    world.deletions.request(world.profiles["sales"].app, "1")
    world.remaining[1] = 0
    world.go_on(during)
    world.act("begin")
    world.require_remaining()
    for name, backup in backups.items():
        world.profiles[name].store = backup
    world.act("begin")
    for name in PROFILES:
        world.deploy(name)
    world.require_remaining()
    for profile in world.profiles.values():
        with TemporaryDirectory() as folder:
            assert b'"id":1,' not in profile.archived(folder)
    for profile in world.profiles.values():
        profile.lose()
    world.require_remaining()
    assert not any(b'"id":1,' in value for profile in world.profiles.values() for value in profile.values())
    world.order(1, 0)
    world.require_remaining()
