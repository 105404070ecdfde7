"""Deletions of users: records of their topic, and their application by a stream."""

import pytest

from services.events import LISTENING_EVENTS
from services.metrics.model import APP
from streamstate.erasure import stream
from streamstate.erasure.applying import personal
from streamstate.erasure.deletions import Bound, DeletionRecord, Deletions, erased
from streamstate.erasure.stream import Erasure
from streamstate.errors import Misconfigured
from streamstate.keys import LONG
from streamstate.processing.decode import RawRecord
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Fields
from streamstate.state.store import Claim, Origin
from streamstate.testing import Driver, FixedTopics
from tests.deletions import InMemory
from tests.raw import play_json

# The topic of deletions, for a partition: requests, receipts in their place, and records of other partitions.

IDS = {"plays": "id"}


def deletion(
    service: str, offset: int, request: int | None = None, user: str = "7", topic_id: str = "id"
) -> DeletionRecord:
    return DeletionRecord(user, service, 3, {"plays": Bound(topic_id, b"key", offset)}, request)


def bounds(deletions: Deletions, service: str, before: int = 2**62, partition: int = 3) -> list[int]:
    asked = deletions.asked(service, partition, IDS, before)
    return [offset for keys in erased(asked, partition, {}).values() for offset in keys.values()]


def known(*records: DeletionRecord) -> Deletions:
    deletions = Deletions()
    for offset, record in enumerate(records):
        deletions.add(offset, record)
    return deletions


def test_a_receipt_counts_instead_of_its_request() -> None:
    deletions = known(deletion("metrics", 10), deletion("metrics", 12, request=0))
    assert bounds(deletions, "metrics") == [12]
    assert deletions.asked("metrics", 3, IDS)[0].request == 0
    assert bounds(deletions, "metrics", before=0) == []


def test_a_request_behind_a_receipt_counts_for_a_state_that_has_applied_it() -> None:
    deletions = known(deletion("metrics", 10), deletion("metrics", 12, request=0), deletion("metrics", 20))
    assert bounds(deletions, "metrics", before=2) == [12]
    assert bounds(deletions, "metrics", before=3) == [20]


def test_a_service_without_an_own_one_keeps_to_those_of_others() -> None:
    deletions = known(deletion("metrics", 10), deletion("names", 14), deletion("names", 15, request=1))
    assert bounds(deletions, "metrics") == [10]
    assert bounds(deletions, "newcomer") == [15]
    assert deletions.for_user("7", "newcomer") == []


def test_a_record_is_found_by_user_service_and_partition() -> None:
    assert deletion("metrics", 10).key == b"7\tmetrics\t3"


# Deletions in a stream: applied when its query begins, and the reason for which it begins again.

USER, OTHER = 1, 2
PLACE = LISTENING_EVENTS, 0
EXPIRE_MS = 100
ORIGINS = {LISTENING_EVENTS: Origin(LISTENING_EVENTS, 1)}


class Stream:
    """A stream of metrics over one partition."""

    def __init__(self) -> None:
        self.topics = FixedTopics({LISTENING_EVENTS: 1, "user-deletions": 1})
        self.topic = InMemory(self.topics)
        self.store = MemoryStore()
        self.erasure = Erasure(APP, self.store, self.topic, EXPIRE_MS)

    def claim(self) -> dict[int, Claim]:
        return {0: self.store.claim(0, "driver:1", {}, ORIGINS)}

    def begin(self) -> dict[bytes, int]:
        """The keys that its query leaves out, and up to where."""
        return dict(self.erasure.apply(self.claim(), ORIGINS).get(PLACE, {}))

    def has_due(self) -> bool:
        self.erasure.find_due()
        return self.erasure.has_due_deletions

    def play(self, *users: int, time: int = 5) -> None:
        raw: list[RawRecord] = []
        for user in users:
            raw.append((self.topics.written.get(PLACE, 0), time, LONG.encode(user), play_json((user, 1, 1, 1, 5))))
            self.topics.written[PLACE] = raw[-1][0] + 1
        driver = Driver(APP, self.store)
        driver.folds = {0: personal(APP, 0, {}, keep_seen=True)}
        driver.feed(0, {LISTENING_EVENTS: raw})

    def count(self, user: int) -> int | None:
        count: int | None = self.store.read({0: [Fields(f"numbers:{user}")]})[0].values[0].get("#")
        return count


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.setattr(stream, "PAUSE_S", 0.0)
    return Stream()


def test_a_query_begins_again_for_a_deletion_and_not_for_its_receipt(metrics: Stream) -> None:
    metrics.play(USER, OTHER, USER)
    metrics.begin()
    assert not metrics.has_due()
    metrics.topic.request(APP, str(USER))
    assert metrics.has_due()
    assert metrics.begin() == {}
    assert (metrics.count(USER), metrics.count(OTHER)) == (None, 1)
    assert not metrics.has_due()


def test_deletions_that_come_soon_wait_for_each_other(metrics: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PAUSE_S", 3_600.0)
    metrics.begin()
    metrics.topic.request(APP, str(USER))
    assert not metrics.has_due()
    monkeypatch.setattr(stream, "PAUSE_S", 0.0)
    assert metrics.has_due()


def test_without_a_topic_a_stream_goes_on(metrics: Stream) -> None:
    metrics.topic.missing = True
    assert metrics.begin() == {}
    assert not metrics.has_due()


def test_a_topic_that_is_gone_or_made_anew_is_refused(metrics: Stream) -> None:
    metrics.play(USER)
    metrics.topic.request(APP, str(USER))
    metrics.begin()
    metrics.topic.missing = True
    with pytest.raises(Misconfigured):
        metrics.begin()
    other = Erasure(APP, metrics.store, InMemory(metrics.topics))
    with pytest.raises(Misconfigured, match="restore it"):
        other.apply(metrics.claim(), ORIGINS)


def test_users_who_are_not_seen_expire_by_stream_time(metrics: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "EXPIRY_S", 0.0)
    metrics.play(USER, time=1)
    metrics.play(OTHER, time=EXPIRE_MS + 1)
    metrics.begin()
    assert not metrics.has_due()
    metrics.play(OTHER, time=EXPIRE_MS + 2)
    assert metrics.has_due()
    metrics.begin()
    assert (metrics.count(USER), metrics.count(OTHER)) == (None, 2)
    assert not metrics.has_due()
    metrics.play(USER, time=EXPIRE_MS + 3)
    metrics.begin()
    assert metrics.count(USER) == 1
    metrics.store.empty()
    assert metrics.begin() == {LONG.encode(USER): 3}
