"""What `streamstate status` says of a service from one look at Kafka and Redis, and how verify shows a difference."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from streamstate.app import App, Fold, Source
from streamstate.cli.report import PartitionReport, Seen, TopicReport, report
from streamstate.kafka.admin import Member
from streamstate.keys import TEXT
from streamstate.settings import StreamSettings
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Commit, OffsetAdvance, Origin
from streamstate.verify.difference import unequal

APP = App("shop", (Fold((Source("orders", TEXT, lambda _key, value: value),), lambda _records, _context: ()),))
ORIGINS = {"orders": Origin("id", 2)}
SETTINGS = StreamSettings.model_validate({})


def seen(
    positions: Mapping[int, int], ends: Mapping[int, int], counters: Mapping[str, int] | None = None, **changed: Any
) -> Seen:
    """Two partitions: those with a position were claimed, and committed at timestamp 10 * position."""
    store = MemoryStore()
    for partition, position in positions.items():
        claim = store.claim(partition, "a:8101", {"orders": ends[partition]}, ORIGINS, {"orders": 0}, APP.declarations)
        store.commit(Commit(claim, [OffsetAdvance("orders", None, position, 10 * position)], [], counters or {}))
    begins = {("orders", partition): 0 for partition in range(2)}
    at = {("orders", partition): end for partition, end in ends.items()}
    return replace(Seen(ORIGINS, begins, store.read({0: [], 1: []}), at, at, members(0, 1), {}), **changed)


def members(*partitions: int) -> dict[str, Member]:
    return {"shop-0": Member(frozenset(partitions))}


UP_TO_DATE = seen({0: 5, 1: 7}, {0: 5, 1: 7})


def faults(of: Seen, settings: StreamSettings = SETTINGS) -> list[str]:
    made = report(APP, of, settings)
    assert made.healthy is (not made.faults)
    return made.faults


def test_a_service_that_has_read_everything_is_healthy() -> None:
    made = report(APP, UP_TO_DATE, SETTINGS)
    assert made.healthy
    assert made.topics == [TopicReport("orders", 2, 0, 70)]
    assert [(p.partition, p.owner, p.instance, p.ready, p.lag) for p in made.partitions] == [
        (0, "a:8101", "shop-0", True, 0),
        (1, "a:8101", "shop-0", True, 0),
    ]


def test_lag_is_what_the_topics_hold_beyond_the_state_and_no_fault() -> None:
    later = replace(UP_TO_DATE, ends={("orders", 0): 15, ("orders", 1): 8})
    made = report(APP, later, SETTINGS)
    assert (made.topics[0].lag, [p.lag for p in made.partitions]) == (11, [10, 1])
    assert made.healthy


def test_what_kafka_has_deleted_already_is_no_lag() -> None:
    cut = replace(UP_TO_DATE, begins={("orders", 0): 9, ("orders", 1): 0}, ends={("orders", 0): 10, ("orders", 1): 7})
    assert report(APP, cut, SETTINGS).topics[0].lag == 1


def test_a_state_that_is_being_built_is_not_ready_and_says_how_far_it_is() -> None:
    made = report(APP, seen({0: 5, 1: 2}, {0: 5, 1: 8}), SETTINGS)
    assert (made.healthy, made.faults, made.progress) == (False, [], 0.25)


def test_a_service_is_deployed_where_an_instance_runs_or_has_left_a_state() -> None:
    unclaimed: Mapping[int, int] = {}
    for of, deployed in (
        (UP_TO_DATE, True),
        (replace(UP_TO_DATE, members={}), True),
        (seen(unclaimed, {0: 5, 1: 8}), True),
        (seen(unclaimed, {0: 5, 1: 8}, members={}), False),
    ):
        assert of.deployed is deployed


def test_a_partition_that_nobody_has_claimed_is_not_ready() -> None:
    made = report(APP, seen({0: 5}, {0: 5, 1: 8}), SETTINGS)
    assert made.partitions[1] == PartitionReport(1, None, "shop-0", 0, ready=False, progress=0.0, lag=8)
    assert not made.healthy


def stored(**changed: Any) -> Seen:
    """All up to date, with other fields in each partition."""
    return replace(UP_TO_DATE, snapshots={p: structs.replace(of, **changed) for p, of in UP_TO_DATE.snapshots.items()})


WIDER = {("orders", partition): 0 for partition in range(3)}
DELETED = replace(UP_TO_DATE, begins=WIDER | {("orders", 1): 9}, ends={("orders", 0): 5, ("orders", 1): 9})
BEGUN_LATE = stored(begins={"orders": 3})
REFUSED: dict[str, tuple[Seen, str]] = {
    "a topic that was made anew": (replace(UP_TO_DATE, origins={"orders": Origin("other", 2)}), "made anew"),
    "another width": (
        replace(
            UP_TO_DATE,
            origins={"orders": Origin("id", 3)},
            begins=WIDER,
            ends=WIDER | dict(UP_TO_DATE.ends),
            members=members(0, 1, 2),
        ),
        "orders has 3 partitions and had 2",
    ),
    "an end before the state": (replace(UP_TO_DATE, stable={("orders", 0): 5, ("orders", 1): 6}), "ends at offset 6"),
    "records that were deleted unread": (DELETED, "deleted 2 records of orders:1"),
    "a missing beginning": (BEGUN_LATE, "orders:0 begins at offset 3"),
    "another fold": (stored(folds={"orders": "9"}), "another fold of orders than this release's (9, now {"),
    "another format": (stored(format=0), "format 0"),
    "no stream at all": (replace(UP_TO_DATE, members={}), "no stream runs in the consumer group shop"),
    "a partition without an instance": (replace(UP_TO_DATE, members=members(0)), "no instance folds partition 1"),
    "what could not be read": (replace(UP_TO_DATE, faults=["Redis is moving a slot"]), "Redis is moving a slot"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_told(what: str) -> None:
    of, reason = REFUSED[what]
    [told] = faults(of)
    assert reason in told


def test_what_an_operator_has_accepted_is_no_fault() -> None:
    assert faults(DELETED, SETTINGS.model_copy(update={"lost_records": "skip"})) == []
    assert faults(BEGUN_LATE, SETTINGS.model_copy(update={"truncated_topics": ("orders",)})) == []


def test_too_many_dead_letters_are_named_while_the_state_lags() -> None:
    bad = seen({0: 500, 1: 500}, {0: 500, 1: 500}, {"dead_letters": 101})
    assert faults(bad) == []
    [told] = faults(replace(bad, ends={("orders", 0): 500, ("orders", 1): 501}))
    assert "202 of 1000 records are dead letters" in told
    assert "streamstate dlq list SERVICE" in told


def test_what_retention_deletes_is_told_before_and_after() -> None:
    def warnings(left_s: float, *truncated: str) -> list[str]:
        given = StreamSettings.model_validate({"truncated_topics": truncated})
        ready = replace(seen({0: 5, 1: 5}, {0: 5, 1: 5}), history={"orders": left_s})
        made = report(APP, ready, given)
        assert made.healthy
        return made.warnings

    assert "may delete the first records of orders in 1 day, 1:00:00" in warnings(90_000)[0]
    assert "has deleted the first records of orders" in warnings(0)[0]
    assert warnings(0, "orders") == []


def test_a_topic_that_does_not_exist_leaves_the_others_to_be_told() -> None:
    made = report(APP, Seen({}, {}, {}, {}, {}, {}, {}, ["the topic orders cannot be read"]), SETTINGS)
    assert (made.topics, made.partitions, made.healthy) == ([], [], False)
    assert made.faults[0] == "the topic orders cannot be read"


# A difference that `streamstate verify` tells shows the members that differ, however long the value is.

MANY = {f"artist {n}".encode(): float(n) for n in range(1_000)}
PLAYS = [(n, {b"track": b"%d" % n}) for n in range(1_000)]


@pytest.mark.parametrize(
    ("expected", "stored", "reason"),
    [
        (MANY, MANY | {b"artist 900": 7.0}, "expected {b'artist 900': 900.0}, found {b'artist 900': 7.0}"),
        (MANY, MANY | {b"another": 1.0}, "expected {}, found {b'another': 1.0}"),
        (PLAYS, PLAYS[:-1], "expected {999: (999, {b'track': b'999'})}, found {}"),
        (None, b"12", "expected None, found b'12'"),
        ("a" * 1_000 + "b", "a" * 1_000 + "c", f"expected …{'a' * 100}b, found …{'a' * 100}c"),
        (b"", b"x" * 1_000, f"expected b'', found b'{'x' * 198}…"),
    ],
)
def test_what_differs_is_shown(expected: Any, stored: Any, reason: str) -> None:
    assert unequal(expected, stored) == reason
