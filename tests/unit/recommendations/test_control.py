"""What operators, clients and shown items keep out of lists."""

from collections.abc import Mapping, Sequence
from itertools import count

import pytest

from services.recommendations.api import create
from services.recommendations.control.exclusions import Rules
from services.recommendations.graph.live import warm_up
from services.recommendations.model import app
from services.recommendations.settings import WindowSettings
from streamstate.formats.applied import formatted
from streamstate.formats.format import Format
from streamstate.formats.registered.registry import Registry
from streamstate.keys import partition_of
from streamstate.settings import load
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Read, Value
from streamstate.state.store import Snapshot
from streamstate.testing import Driver
from tests.serving import Loop
from tests.unit.recommendations.following import PARTITIONS, WINDOW, fold, records
from tests.unit.recommendations.serving import ME, PLAYS, STRANGER, Recommender, served
from tests.waiting import now_ms


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No request waits for the compiler."""
    warm_up()


def offered(recommender: Recommender, query: str = "", kind: str = "artists") -> list[int]:
    return [item["id"] for item in recommender.get(f"{STRANGER}/recommendations/{kind}{query}")["items"]]


@pytest.fixture(params=[Format(), Format(key="string", partitioner="crc32")], ids=["", "librdkafka"])
def controlled(loop: Loop, request: pytest.FixtureRequest) -> tuple[Recommender, Driver]:
    """A recommender that reads rules and shown items of a producer, and the driver of its stream."""
    settings = WindowSettings.model_construct(window=WINDOW, recommendation_rules=True, shown=2)
    own = formatted(app(settings), {"shown": request.param}, Registry(""))
    found = served(loop, own, shown_age_s=3_600)
    stream = Driver(own, found.store, PARTITIONS)
    fold(stream, records(PLAYS))
    return found, stream


def test_operators_deny_and_allow_items_and_categories(controlled: tuple[Recommender, Driver]) -> None:
    recommender, stream = controlled
    offsets = count()

    def rule(key: str, value: str | None) -> None:
        raw = key.encode()
        record = (next(offsets), 0, raw, value.encode() if value else None)
        stream.feed(partition_of(raw, PARTITIONS), {"recommendation-rules": [record]})
        recommender.follow()

    recommender.follow()
    assert offered(recommender) == [7, 8, 9]
    rule("artists:7", '{"rule": "deny"}')
    assert offered(recommender) == [8, 9]
    assert offered(recommender, "?starts=artists:8") == [9]
    rule("artists:9", '{"categories": ["jazz", "live"]}')
    assert offered(recommender, "?categories=jazz") == [9]
    assert offered(recommender, "?categories=none") == []
    assert offered(recommender, "?excludeCategories=jazz,pop") == [8]
    rule("category:live", '{"rule": "allow"}')
    assert offered(recommender) == [9]
    assert offered(recommender, kind="tracks") == [27, 28, 29]
    rule("category:live", '{"rule": "deny"}')
    assert offered(recommender) == [8]
    rule("category:live", None)
    rule("artists:7", None)
    assert offered(recommender) == [7, 8, 9]
    for key, value in (("artist:7", "{}"), ("artists:7", '{"rule": "hide"}'), ("category:x", '{"categories": ["y"]}')):
        rule(key, value)
    assert [letter.key for letter in stream.dead] == [b"artist:7", b"artists:7", b"category:x"]


class Emptied(MemoryStore):
    """A store that is emptied, once `ends`, after a read of all positions."""

    ends = False

    def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        found = super().read(wanted)
        if self.ends and len(wanted) == PARTITIONS and not any(wanted.values()):
            list(map(self.delete, wanted))
        return found


def test_the_rules_stay_when_the_state_is_emptied_between_two_reads() -> None:
    store = Emptied()
    own = app(WindowSettings.model_construct(window=WINDOW, recommendation_rules=True))
    driver = Driver(own, store, PARTITIONS)
    driver.feed(0, {"recommendation-rules": [(0, 0, b"artists:7", b"{}")]})
    rules = Rules(store, "recommendation-rules")
    rules.step()
    driver.feed(0, {"recommendation-rules": [(1, 0, b"artists:8", b"{}")]})
    before, store.ends = rules.now(), True
    rules.step()
    assert rules.now() is before


def test_the_rules_of_a_partition_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.recommendations.control.rules.MOST_RULES", 2)
    stream = Driver(app(WindowSettings.model_construct(window=WINDOW, recommendation_rules=True)), MemoryStore())
    stream.feed(0, {"recommendation-rules": [(n, 0, f"tracks:{n}".encode(), b"{}") for n in range(4)]})
    (value,) = stream.store.read({0: [Value("rules")]})[0].values
    assert value == '{"tracks:0":{},"tracks:1":{}}'
    assert [letter.offset for letter in stream.dead] == [2, 3]


def test_what_was_shown_is_left_out_for_a_time(controlled: tuple[Recommender, Driver]) -> None:
    recommender, stream = controlled
    recommender.follow()
    source, now = stream.app.source("shown"), now_ms()

    def show(offset: int, item: int, at: int) -> None:
        value = b'{"kind": "artists", "id": %d}' % item
        place, key = source.partition(STRANGER, PARTITIONS), source.key.encode(STRANGER)
        stream.feed(place, {"shown": [(offset, at, key, value)]})

    show(0, 7, now - 7_200_000)
    assert offered(recommender) == [7, 8, 9]
    show(1, 8, now - 3)
    assert offered(recommender) == [7, 9]
    assert offered(recommender, kind="tracks") == [27, 28, 29]
    assert [item["id"] for item in recommender.get(f"{STRANGER}/recommendations")["artistRecommendations"]] == [7, 9]
    show(2, 9, now - 2)
    show(3, 7, now - 1)
    assert offered(recommender) == [8]
    assert [item["id"] for item in recommender.get(f"{ME}/recommendations/artists")["items"]] == [8, 9]


def test_an_api_by_its_settings_reads_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSTATE_RECOMMENDATION_RULES", "true")
    monkeypatch.setenv("STREAMSTATE_SHOWN", "5")
    paths = [rule.rule for rule in create().flask.url_map.iter_rules()]
    assert "/v1/artists/<key>/similar" in paths
    assert app(load(WindowSettings)).topics == ("listening-events", "recommendation-rules", "shown")
