"""A profile whose key is a member of the value: each record counts once, whatever keys, kills and batches there are."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.app import NULLS
from streamstate.erasure.applying import personal
from streamstate.kafka.dlq.records import derived
from streamstate.kafka.producer import Headers
from streamstate.keys import CODECS, Marker, partition_of
from streamstate.processing.decode import Markers, RawRecord
from streamstate.processing.fold_batch import FoldResult
from streamstate.profile import profile_app
from streamstate.profile.answer import Moment
from streamstate.profile.declaration import Declaration
from streamstate.profile.file import parse
from streamstate.profile.measure import BadDeclaration
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver

PARTITIONS, MINUTE_MS, NOW = 3, 60_000, 200 * 60_000
YAML = """
name: sales
topic: orders
key: value.buyer.id
path: /v1/users/<key>/sales
fields: {buyer: {type: int, member: buyer.id}, cents: int, shop: str}
measures:
  orders: {count: all, over: [1h, ever]}
  spent:  {total: cents, over: [1h, ever]}
  shops:  {top: 3, of: shop}
"""
KEYED = "orders-by-buyer.id-int"


def marker_of(headers: Headers) -> bytes:
    marker = Marker.from_headers(headers)
    assert marker
    return marker.encode()


class Killed(Exception):
    """The process ends between the publication and the commit."""


class Chain(Driver):
    """A driver that keeps the topic with the keys. killed: whether the process ends before the next commit."""

    def __init__(self, declared: Declaration, partitions: int = PARTITIONS) -> None:
        super().__init__(profile_app(declared), MemoryStore(), partitions)
        self.killed = False
        self.logs: list[list[RawRecord]] = [[] for _ in range(partitions)]
        self.markers: list[dict[int, bytes]] = [{} for _ in range(partitions)]

    def publish(self, results: Sequence[FoldResult]) -> None:
        super().publish(results)
        for result in results:
            emits = [emit for emit in result.emits if emit.cause.topic == "orders"]
            for record in derived(self.app, emits, result.partition, {"orders": "id"}):
                assert len(record) == 5
                _, key, value, headers, timestamp = record
                log = self.logs[partition := partition_of(key or b"", self.partitions)]
                self.markers[partition][len(log)] = marker_of(headers)
                log.append((len(log), timestamp, key, value))
        if self.killed:
            raise Killed

    def step(self, partition: int, topic: str, log: list[RawRecord], markers: Markers, size: int, killed: bool) -> None:
        """Fold the next `size` records, or end before the commit."""
        at = self.store.read({partition: []})[partition].positions.get(topic, 0)
        self.killed = killed
        try:
            if rows := log[at : at + size]:
                self.feed(partition, {topic: rows}, {topic: markers})
        except Killed:
            pass
        self.killed = False


Order = tuple[int | None, int, str, int]
"""Buyer (None: missing), cents, shop, minute."""

orders = st.tuples(st.none() | st.integers(-1, 4), st.integers(0, 9), st.sampled_from("ab"), st.integers(1, 200))
keys = st.none() | st.binary(max_size=9)
logs = st.lists(st.lists(st.tuples(orders, keys), max_size=12), min_size=PARTITIONS, max_size=PARTITIONS)
steps = st.lists(
    st.tuples(st.integers(0, PARTITIONS - 1), st.booleans(), st.integers(1, 6), st.booleans()), max_size=30
)


def value(order: Order) -> bytes:
    buyer, cents, shop, _ = order
    return msgspec.json.encode({"buyer": None if buyer is None else {"id": buyer}, "cents": cents, "shop": shop})


def by_hand(user: int, all_orders: Sequence[Order]) -> dict[str, Any] | None:
    own = [order for order in all_orders if order[0] == user]
    hour = [order for order in own if order[3] >= 140]
    shops = {shop: sum(order[2] == shop for order in own) for shop in "ab"}
    ranked = sorted(((-n, shop) for shop, n in shops.items() if n))
    if not own:
        return None
    return {
        "orders": {"1h": len(hour), "ever": len(own)},
        "spent": {"1h": sum(order[1] for order in hour), "ever": sum(order[1] for order in own)},
        "shops": [{"value": shop, "count": -n} for n, shop in ranked],
    }


@settings(max_examples=150)
@given(logs, steps)
def test_each_record_counts_once(given_logs: list[list[tuple[Order, bytes | None]]], taken: list[Any]) -> None:
    driver = Chain(parse(YAML))
    sources = [
        [(offset, order[3] * MINUTE_MS, key, value(order)) for offset, (order, key) in enumerate(log)]
        for log in given_logs
    ]
    rest = [(p, of_keyed, 99, False) for of_keyed in (False, True) for p in range(PARTITIONS)]
    for partition, of_keyed, size, killed in [*taken, *rest]:
        if of_keyed:
            driver.step(partition, KEYED, driver.logs[partition], driver.markers[partition], size, killed)
        else:
            driver.step(partition, "orders", sources[partition], {}, size, killed)
    all_orders = [order for log in given_logs for order, _ in log]
    for user in range(5):
        answer = msgspec.to_builtins(driver.view("sales", user, Moment(NOW)))
        if answer:
            answer = {name: answer[name] for name in ("orders", "spent", "shops")}
        assert answer == by_hand(user, all_orders)
    snapshots = driver.store.read({p: [] for p in range(PARTITIONS)}).values()
    unreadable = sum(order[0] is None or order[0] < 0 for order in all_orders)
    assert sum(snapshot.counters.get("dead_letters", 0) for snapshot in snapshots) == unreadable
    assert not any(snapshot.counters.get("misplaced_keys", 0) for snapshot in snapshots)


@pytest.mark.parametrize("deleted", [value((1, 5, "a", 1)), None])
def test_a_build_after_a_deletion_folds_no_repeat_of_a_deleted_record(deleted: bytes | None) -> None:
    """The record at 0 is of a deleted user, None in a compacted archive, and its repeat lies behind the deletion."""
    driver = Chain(parse(YAML))
    key = CODECS["long"].encode(1)
    partition = partition_of(key, PARTITIONS)
    driver.folds = {partition: personal(driver.app, partition, {(KEYED, partition): {key: 1}}, keep_seen=True)}
    marker = Marker("id", 0, 5, 0).encode()
    rows = [(offset, MINUTE_MS, key, content) for offset, content in enumerate([deleted, value((1, 5, "a", 1))])]
    driver.feed(partition, {KEYED: rows}, {KEYED: dict.fromkeys(range(2), marker)})
    assert driver.view("sales", 1, Moment(NOW)) is None
    assert not driver.dead


def test_records_of_another_kind_need_no_key() -> None:
    driver = Chain(parse(YAML.replace("measures:", "where: {shop: {eq: a}}\nmeasures:")))
    values = [b'{"shop": "a", "buyer": {"id": 1}}', b'{"shop": "b"}', b'{"shop": "b", "buyer": {"id": "x"}}']
    values += [b'{"shop": "b", "buyer": {"id": 2}}', b'{"shop": "a"}', b"no JSON"]
    driver.feed(0, {"orders": [(offset, 1, None, each) for offset, each in enumerate(values)]})
    assert [letter.offset for letter in driver.dead] == [4, 5]
    assert str(driver.dead[0].error) == "the member buyer.id is missing or null; it is the key"
    # Another `where` selects other records of the same topic.
    assert [emit.cause.offset for emit in driver.emitted] == [0, 3]


@pytest.mark.parametrize("where", ["", "where: {shop: {eq: a}}\n"])
def test_a_null_value_has_no_key_and_counts_as_such(where: str) -> None:
    driver = Chain(parse(YAML.replace("measures:", f"{where}measures:")))
    driver.feed(0, {"orders": [(0, 1, b"key", None)]})
    assert (driver.dead, driver.emitted) == ([], [])
    assert driver.store.read({0: ()})[0].counters == {NULLS: 1}


def test_a_timestamp_that_kafka_would_replace_is_refused() -> None:
    driver = Chain(parse(YAML))
    driver.feed(0, {"orders": [(0, 0, None, value((1, 1, "a", 0)))]})
    assert str(driver.dead[0].error) == "the timestamp is 0; the producer has to set it"


@pytest.mark.parametrize(
    ("kind", "topic", "key"),
    [
        ("int", "orders-by-id-int", "long"),
        ("int(text)", "orders-by-id-int-text", "long"),
        ("str", "orders-by-id-str", "text"),
    ],
)
def test_the_topic_is_named_by_member_and_type(kind: str, topic: str, key: str) -> None:
    text = f"{{name: n, topic: orders, key: value.id, path: /v1/n/<key>, fields: {{id: {kind}}}"
    declared = parse(f"{text}, measures: {{n: {{count: all}}}}}}")
    app = profile_app(declared)
    assert (app.topics, app.outputs, declared.key_type) == ((topic, "orders"), (topic, "n-dlq"), key)
    assert Declaration.of_state("n", declared.state).keyed_topic == topic


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (
            "value.who",
            "the member who is no field; declare its type, such as fields: {userId: {type: int, member: who}}",
        ),
        ("value.cents", "the member cents is no key; a key is an int, an int(text) or a str"),
        ("values.buyer.id", "there is no key values.buyer.id: write"),
        ("bigint", "there is no key bigint: write long for whole numbers of 8 bytes, int for those of 4, "),
    ],
)
def test_a_faulty_key_names_the_way_out(key: str, reason: str) -> None:
    with pytest.raises(BadDeclaration) as error:
        parse(YAML.replace("value.buyer.id", key).replace("cents: int", "cents: decimal(2)"))
    assert error.value.reason.startswith(reason)
