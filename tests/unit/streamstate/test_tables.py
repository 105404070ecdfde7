"""A topic as a table: the last value of each key, looked up by others."""

from collections.abc import Mapping, Sequence

from streamstate.app import App, FoldContext, Record
from streamstate.keys import LONG, TEXT, partition_of
from streamstate.operators.tables import look_up, row, table
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Delete, Operation, Put, Read
from streamstate.state.store import Commit, OffsetAdvance, Snapshot
from streamstate.testing import Driver


def upper(_key: object, value: bytes) -> str:
    return value.decode().upper()


CITIES = table("cities", LONG, upper)
PORTS = table("ports", TEXT, upper)
APP = App("places", (CITIES, PORTS))
COUNTS = {"cities": 4, "ports": 2}


class CountingStore(MemoryStore):
    """Counts the round trips of reading."""

    trips = 0

    def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        self.trips += 1
        return super().read(wanted)


def fold(*records: tuple[int, str | None]) -> list[Operation]:
    numbered = [Record("cities", key, value, offset, 0, 0) for offset, (key, value) in enumerate(records)]
    return [effect for effect in CITIES.apply(numbered, FoldContext()) if isinstance(effect, Put | Delete)]


def put(store: MemoryStore, partition: int, operations: list[Operation]) -> None:
    claim = store.claim(partition, "a:1", {})
    store.commit(Commit(claim, [OffsetAdvance("cities", None, 1)], operations))


def test_the_last_value_of_a_batch_is_put() -> None:
    assert fold((1, "a"), (2, "b"), (1, "c")) == [Put("cities:1", "c"), Put("cities:2", "b")]


def test_a_tombstone_deletes_and_a_later_value_comes_back() -> None:
    assert fold((1, "a"), (1, None)) == [Delete("cities:1")]
    assert fold((1, None), (1, "a")) == [Put("cities:1", "a")]


def test_a_null_value_is_a_tombstone_and_never_reaches_the_decoder() -> None:
    assert CITIES.sources[0].decode(1, None) is None
    assert CITIES.sources[0].decode(1, b"ulm") == "ULM"


def test_an_empty_value_is_a_value() -> None:
    assert fold((1, "")) == [Put("cities:1", "")]


def test_a_key_that_the_table_does_not_have_is_none() -> None:
    store = MemoryStore()
    for key in (1, 2, 3):
        partition = partition_of(LONG.encode(key), COUNTS["cities"])
        claim = store.claim(partition, "a:1", {"cities": 0})
        step = Put(row("cities", key), f"city {key}")
        position = claim.positions.get("cities")
        store.commit(Commit(claim, [OffsetAdvance("cities", position, (position or 0) + 1)], [step]))
    found = look_up(APP, store, COUNTS, {"cities": [1, 2, 3, 4], "ports": ["x"]})
    assert found == {"cities": {1: "city 1", 2: "city 2", 3: "city 3", 4: None}, "ports": {"x": None}}


def test_each_table_is_found_by_its_own_number_of_partitions() -> None:
    driver = Driver(App("places", (PORTS,)), MemoryStore(), COUNTS["ports"])
    for offset, name in enumerate(["kiel", "brest", "genua"]):
        raw = TEXT.encode(name)
        driver.feed(partition_of(raw, 2), {"ports": [(offset, 0, raw, raw)]})
    found = look_up(APP, driver.store, COUNTS, {"ports": ["kiel", "brest", "genua"]})
    assert found == {"ports": {"kiel": "KIEL", "brest": "BREST", "genua": "GENUA"}}


def test_any_number_of_keys_is_one_round_trip_and_none_is_no_round_trip() -> None:
    store = CountingStore()
    look_up(APP, store, COUNTS, {"cities": range(100), "ports": ["a", "b"]})
    assert store.trips == 1
    look_up(APP, store, COUNTS, {"cities": []})
    look_up(APP, store, COUNTS, {})
    assert store.trips == 1


def test_a_row_comes_back_as_it_was() -> None:
    store = MemoryStore()
    partition = partition_of(LONG.encode(1), 4)
    put(store, partition, [Put(row("cities", 1), "Łódź \0 🎵")])
    assert look_up(APP, store, COUNTS, {"cities": [1]}) == {"cities": {1: "Łódź \0 🎵"}}


def test_an_empty_row_is_found() -> None:
    store = MemoryStore()
    put(store, partition_of(LONG.encode(1), 4), [Put(row("cities", 1), "")])
    assert look_up(APP, store, COUNTS, {"cities": [1]}) == {"cities": {1: ""}}


def test_a_table_says_so() -> None:
    assert APP.tables == ("cities", "ports")
