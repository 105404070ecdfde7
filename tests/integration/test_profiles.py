"""From Kafka to the answer: every profile equals a recount of the topic."""

import json

import redis
import urllib3

from devkit.local_cluster import get
from services.events import KINDS, LISTENING_EVENTS
from services.names.model import ENRICHED
from streamstate.kafka.dlq.records import TOPIC_HEADER
from streamstate.keys import Marker
from tests.integration import expected_answers
from tests.integration.driving import Driving, headers
from tests.waiting import until

RECENT = 50
LISTS = ("artistRecommendations", "albumRecommendations", "trackRecommendations")


def assert_recount_agrees(driving: Driving) -> None:
    known = {kind: expected_answers.names(driving.read(kind)) for kind in KINDS}
    expected = expected_answers.profiles(driving.read(LISTENING_EVENTS), known)
    assert expected
    for user, profile in expected.items():
        answer = driving.get(f"/v1/users/{user}").json()
        assert answer.pop("warnings") == []
        assert all(isinstance(answer.pop(name), list) for name in (*LISTS, "fallbacks"))
        assert answer == profile


def test_every_profile_equals_a_recount(driving: Driving) -> None:
    assert_recount_agrees(driving)


def test_a_user_of_whom_nothing_is_known(driving: Driving) -> None:
    answer = driving.get("/v1/users/9999999")
    assert answer.status == 404
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_each_instance_owns_half_and_is_asked_only_for_its_own(driving: Driving) -> None:
    addresses = driving.cluster.addresses["metrics"]
    owned = {
        f"{one['host']}:{one['port']}": one["partitions"]
        for one in get(f"http://{addresses[0]}/processors")["instances"]
    }
    assert sorted(owned) == sorted(addresses)
    assert [len(partitions) for partitions in owned.values()] == [4, 4]
    assert sorted(p for partitions in owned.values() for p in partitions) == list(range(8))
    for user in range(1, 100):
        answer = driving.get(f"/v1/users/{user}/metrics")
        assert answer.headers["Served-By"] in owned
    for address in addresses:
        metrics = urllib3.request("GET", f"http://{address}/metrics").data.decode()
        assert 'streamstate_forwarded_requests_total{service="metrics"} 0.0' in metrics


def test_an_instance_that_is_asked_for_anothers_key_passes_it_on(driving: Driving) -> None:
    addresses = driving.cluster.addresses["names"] + driving.cluster.addresses["metrics"]
    answers = [urllib3.request("GET", f"http://{at}/v1/users/1/metrics") for at in addresses[1:]]
    assert [answer.status for answer in answers] == [200, 200]
    assert len({answer.data for answer in answers}) == 1
    assert len({answer.headers["Served-By"] for answer in answers}) == 1


def test_recent_plays_come_with_names_newest_first(driving: Driving) -> None:
    plays = driving.get("/v1/users/1/recent").json()["recent"]
    assert len(plays) == RECENT
    assert [play["timestamp"] for play in plays] == sorted((play["timestamp"] for play in plays), reverse=True)
    for kind, field in (("artists", "artist"), ("albums", "album"), ("tracks", "track")):
        names = expected_answers.names(driving.read(kind))
        assert [play[f"{field}Name"] for play in plays] == [names.get(play[f"{field}Id"]) for play in plays]


def test_recent_plays_take_less_than_3_kb_of_redis(driving: Driving) -> None:
    with redis.Redis(port=driving.cluster.redis.port) as client:
        keys = list(client.scan_iter(match="{names:*}:user:*:plays", count=10_000))
        full = [client.memory_usage(key) or 0 for key in keys if client.zcard(key) == RECENT]
    assert full
    assert max(full) <= 3_000


def test_every_usable_event_is_published_with_names(driving: Driving) -> None:
    published = driving.read(ENRICHED)
    too_large = [letter for letter in driving.read("names-dlq") if TOPIC_HEADER in headers(letter)]
    assert {Marker.from_headers(record.headers()) for record in [*published, *too_large]} == driving.usable_plays()
    assert any(json.loads(one.value() or b"")["trackName"] for one in published)


def test_a_name_that_changes_or_goes_shows_at_once(driving: Driving) -> None:
    send = driving.out.produce
    key = (1).to_bytes(8, "big")
    send("artists", json.dumps({"id": 1, "name": "Renamed ✨"}).encode(), key)
    driving.out.flush()
    until(lambda: driving.get("/v1/artists/1").json().get("name") == "Renamed ✨", 30, "the new name")
    send("artists", None, key)
    driving.out.flush()
    until(lambda: driving.get("/v1/artists/1").status == 404, 30, "the tombstone to delete the name")
    found = driving.get("/v1/many?artists=1&artists=2&albums=1").json()
    assert found["artists"]["1"] is None
    assert found["artists"]["2"]["id"] == found["albums"]["1"]["id"] + 1 == 2
