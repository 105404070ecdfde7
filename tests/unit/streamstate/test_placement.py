"""The partitioner of a topic: one fact for all that looks for a key, and what its keys tell of another one."""

import zlib
from collections.abc import Iterable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.clicks.model import APP as CLICKS
from services.names.model import APP as NAMES
from streamstate.app import App, Fold, Source
from streamstate.erasure.applying import expiries
from streamstate.errors import Misconfigured
from streamstate.formats.applied import formatted
from streamstate.formats.format import Format
from streamstate.formats.registered.registry import Registry
from streamstate.functions import source
from streamstate.keys import INT, PARTITIONERS, TEXT, partition_of
from streamstate.keys.unread import UNREAD
from streamstate.operators.tables import look_up, table
from streamstate.processing.decode import MISPLACED, Admission, decode_records
from streamstate.processing.placement import MIXED, Placement, fitting, misplaced
from streamstate.profile import Profile, count
from streamstate.profile.measure import BadDeclaration
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Claim, Origin, Snapshot
from streamstate.testing import Driver
from streamstate.web.partition_map import entries

KEYS = [b"user-%d" % number for number in range(400)]
PARTITIONS = 6
CRC32 = Format(partitioner="crc32")


@given(st.binary(max_size=40), st.integers(1, 100_000))
def test_partitioners_are_those_of_librdkafka_and_sarama(key: bytes, partitions: int) -> None:
    """Sarama takes the hash for a signed number, and the absolute value of Go's remainder."""
    number = 2_166_136_261
    for byte in key:
        number = (number ^ byte) * 16_777_619 % 2**32
    signed = number - 2**32 if number >= 2**31 else number
    assert partition_of(key, partitions, "fnv1a") == abs(signed) % partitions
    assert partition_of(key, partitions, "crc32") == zlib.crc32(key) % partitions


class Plays(Profile, topic="plays", path="/v1/users/<key>/plays", key="text", partitioner="crc32"):
    """Plays by a producer with librdkafka's defaults."""

    plays = count()


def test_all_that_looks_for_a_key_takes_the_partitioner_of_its_topic() -> None:
    (view,), (of,) = Plays.app.views, Plays.app.sources
    (entry,) = entries(Plays.app)
    assert (entry.partitioner, view.partitioner) == ("crc32", "crc32")
    for key in map(bytes.decode, KEYS):
        place = partition_of(key.encode(), PARTITIONS, "crc32")
        assert [*view.ask(key).partitions({"plays": PARTITIONS})] == [of.partition(key, PARTITIONS)] == [place]
        claims = (Claim(partition, 1, "", {}) for partition in range(PARTITIONS))
        asked = [
            each for claim in claims for each in expiries(Plays.app, claim, {"plays": Origin("", PARTITIONS)}, [key])
        ]
        assert [each.partition for each in asked if each.bounds] == [place]
        raw = [(0, 1, key.encode(), b"{}")]
        decoded = [decode_records(of, raw, (None, 0), (p, PARTITIONS), Admission(2)) for p in range(PARTITIONS)]
        assert [partition for partition, each in enumerate(decoded) if not each.misplaced] == [place]


def test_rows_of_a_table_are_looked_up_by_its_partitioner_which_is_a_setting_of_its_state() -> None:
    shops = App("shops", (table("shops", TEXT, lambda _key, value: value.decode()),))
    by_crc32 = formatted(shops, {"shops": CRC32}, Registry(""))
    driver = Driver(by_crc32, MemoryStore(), PARTITIONS)
    for offset, key in enumerate(KEYS):
        driver.feed(partition_of(key, PARTITIONS, "crc32"), {"shops": [(offset, 0, key, key)]})
    names = [key.decode() for key in KEYS]
    assert look_up(by_crc32, driver.store, {"shops": PARTITIONS}, {"shops": names})["shops"] == dict(
        zip(names, names, strict=True)
    )
    assert by_crc32.declarations != shops.declarations


def test_topics_of_one_fold_are_placed_alike_and_written_topics_by_murmur2() -> None:
    with pytest.raises(Misconfigured, match=r"user-clicks by crc32.*give them the same partitioner"):
        formatted(CLICKS, {"user-clicks": CRC32}, Registry(""))
    app = formatted(CLICKS, {"*": CRC32}, Registry(""))
    assert {each.partitioner for each in app.sources} == {"crc32"}
    with pytest.raises(Misconfigured, match=r"listening-events-enriched is written by names, .* murmur2"):
        formatted(NAMES, {"listening-events-enriched": CRC32}, Registry(""))


@pytest.mark.parametrize("words", [{"partitioner": "crc"}, {"partitioner": "crc32", "key": "value.user"}])
def test_a_profile_has_a_known_partitioner_and_none_for_a_key_from_the_value(words: Any) -> None:
    fields = {"user": "int"}
    given = {"topic": "plays", "path": "/v1/users/<key>/plays", "fields": fields, **words}
    with pytest.raises(BadDeclaration, match=r"did you mean crc32|remove the partitioner"):
        type("Wrong", (Profile,), {"plays": count()}, **given)


def placed(partitioner: str, keys: Iterable[bytes] = KEYS) -> list[tuple[int, bytes | None]]:
    return [(partition_of(key, PARTITIONS, partitioner), key) for key in keys]


@pytest.mark.parametrize("declared", PARTITIONERS)
@pytest.mark.parametrize(
    ("sample", "fits"),
    [
        *((placed(name), name) for name in PARTITIONERS),
        *((placed(name, KEYS[:7]), name) for name in PARTITIONERS),
        (placed("murmur2", KEYS[:200]) + placed("crc32", KEYS[200:]), MIXED),
        # The same keys, by an old and a new producer.
        (placed("murmur2") + placed("crc32"), MIXED),
        ([(number % PARTITIONS, key) for number, key in enumerate(KEYS)], MIXED),
        # A few records of another tool, and bytes that are no key.
        (placed("crc32") + placed("murmur2", [b"a", b"b"]), "crc32"),
        ([*placed("fnv1a"), *((0, b"\xff%d" % number) for number in range(200)), (1, None)], "fnv1a"),
    ],
)
def test_sampled_keys_tell_their_partitioner(declared: str, sample: Any, fits: str) -> None:
    assert fitting(source("plays", str, TEXT, partitioner=declared), sample, PARTITIONS) == fits


@pytest.mark.parametrize("key", [UNREAD, INT], ids=lambda key: key.name)
def test_without_a_key_of_its_type_a_topic_is_as_declared(key: Any) -> None:
    assert fitting(Source("plays", key, lambda _key, value: value), placed("crc32"), PARTITIONS) == "murmur2"


def test_advice_names_the_setting_for_a_service_and_the_member_for_a_profile() -> None:
    def advised(app: App, **found: str) -> list[str]:
        snapshot = Snapshot("a:1", 1, {}, {}, {}, {}, {}, (), placed=found)
        return misplaced(app, app.topics, [snapshot])

    lines = App("lines", (Fold((source("lines-eu", str),), lambda _records, _context: ()),))
    [named] = advised(lines, **{"lines-eu": "fnv1a"})
    assert """STREAMSTATE_FORMATS='{"lines-eu": {"partitioner": "fnv1a"}}'""" in named
    assert "take the key from the value" in advised(lines, **{"lines-eu": MIXED})[0]
    assert advised(Plays.app, plays="murmur2") == [
        "the producers of plays place keys by murmur2, not crc32: declare partitioner: murmur2 in the profile"
    ]
    assert advised(Plays.app, plays="crc32") == advised(lines) == []


class Reports(MemoryStore):
    """A store that notes the reported partitioners."""

    def __init__(self) -> None:
        super().__init__()
        self.placed: list[tuple[int, str, str]] = []

    def report_placed(self, *report: Any) -> None:
        self.placed.append(report)


def test_keys_are_sampled_at_the_first_misplaced_one_and_whenever_twice_as_many_more_have_come() -> None:
    store, sampled = Reports(), list[str]()

    def sample(of: Source[Any, Any]) -> list[tuple[int, bytes | None]]:
        sampled.append(of.topic)
        return placed("murmur2")

    store.claim(1, "a:1", {})
    placement = Placement(Plays.app, cast("Any", store), lambda _topic: PARTITIONS, sample)
    looks = []
    for count_of_misplaced in (0, 1_000, 1_000, 1_001, 1_001, 1_002, 1_003, 1_004):
        snapshot = Snapshot("a:1", 1, {}, {}, {}, {MISPLACED: count_of_misplaced}, {}, ())
        placement.look({1: snapshot})
        looks.append(len(sampled))
    assert looks == [0, 1, 1, 2, 2, 3, 3, 4]
    assert set(store.placed) == {(1, "plays", "murmur2")}
