"""Crossings of rules as streams of a gateway before two instances: new crossings, missed crossings, two profiles."""

from collections.abc import Iterator
from typing import Any

import pytest

from streamstate.erasure.applying import steps
from streamstate.erasure.deletions import Asked, Bound
from streamstate.keys import LONG, partition_of
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.state.store import Origin
from streamstate.testing import Driver
from streamstate.web.server.asgi import Asgi
from tests.listening import Heard, Listener
from tests.serving import Loop, Serve
from tests.unit.gateway.deployment import PARTITIONS, Services
from tests.waiting import until

YAML = """
name: alarms
topic: visits
key: long
path: /v1/users/<key>/alarms
measures: {visits: {count: all}}
rules:
  third: {when: {visits: {eq: 3}}}
  many: {when: {visits: {ge: 5}}}
"""
APP = profile_app(parse(YAML))
STREAM = "/v1/rules/third/stream"
USERS = range(1, 41)


class Visits:
    """Visits of users in the state of the app in `services`."""

    def __init__(self, services: Services, app: Any = APP) -> None:
        self._services, self._app = services, app
        self._offsets = [0] * PARTITIONS
        services.start(app, 2)

    def feed(self, *users: int) -> None:
        driver = Driver(self._app, self._services.stores[self._app.name], PARTITIONS)
        for user in users:
            partition = partition_of(LONG.encode(user), PARTITIONS)
            driver.feed(partition, {"visits": [(self._offsets[partition], 1_000, LONG.encode(user), b"{}")]})
            self._offsets[partition] += 1
        self._services.share_out(self._app.name)

    def cross(self, *users: int) -> None:
        """Let the rule `third` hold."""
        self.feed(*users * 3)

    def create_anew(self) -> None:
        """The state of another topic of this name, before its first record."""
        self._offsets = [0] * PARTITIONS
        store = self._services.stores[self._app.name]
        store.empty()
        for partition in range(PARTITIONS):
            store.claim(partition, "stream:1", {}, {"visits": Origin("bWJD+NdV/fSi0JVxv85+kQ", PARTITIONS)})
        self._services.share_out(self._app.name)

    def delete(self, user: int) -> None:
        key, store = LONG.encode(user), self._services.stores[self._app.name]
        partition, origins = partition_of(key, PARTITIONS), {"visits": Origin("visits", PARTITIONS)}
        claim = store.claim(partition, "stream:1", {}, origins)
        asked = Asked(str(user), 0, {"visits": Bound("visits", key, self._offsets[partition])}, None)
        for step in steps(self._app, store, claim, origins, [asked]):
            store.commit(step.commit)
        self._services.share_out(self._app.name)


@pytest.fixture
def services(serve: Serve, loop: Loop) -> Services:
    return Services(serve, loop)


@pytest.fixture
def visits(services: Services) -> Visits:
    return Visits(services)


@pytest.fixture
def gateway(services: Services, visits: Visits) -> Asgi:
    assert visits
    return services.app(watch_ms=20, streams=3)


def listen(services: Services, gateway: Asgi, last_id: str = "", path: str = STREAM) -> Listener:
    """A client, once it is answered."""
    client = Listener(services.loop, gateway, path, last_id)
    until(lambda: client.blocks)
    return client


def heard(client: Listener, number: int) -> Iterator[Heard]:
    return (client.next() for _ in range(number))


def test_each_client_gets_each_crossing_from_its_connection_on(
    services: Services, gateway: Asgi, visits: Visits
) -> None:
    visits.cross(1)
    first = listen(services, gateway)
    assert first.quiet()
    assert first.headers["Content-Type"] == "text/event-stream"
    visits.cross(2)
    event = first.next()
    assert (event.name, event.data) == ("crossing", {"rule": "third", "key": 2, "value": 3, "at": 1_000})
    second = listen(services, gateway)
    visits.cross(*USERS[2:])
    for client in (first, second):
        events = [*heard(client, len(USERS) - 2)]
        assert sorted(each.data["key"] for each in events) == [*USERS[2:]]
        assert len({each.id for each in events}) == len(events)
        assert client.quiet()


@pytest.mark.parametrize("before", [[], [*USERS] * 2])
def test_a_client_of_a_topic_that_was_created_anew_gets_all_crossings(
    services: Services, gateway: Asgi, visits: Visits, before: list[int]
) -> None:
    client = listen(services, gateway)
    visits.feed(*before, *[1] * 3)
    last_id = client.next().id
    client.leave()
    visits.create_anew()
    again = listen(services, gateway, last_id)
    visits.cross(*USERS[:6])
    assert sorted(each.data["key"] for each in heard(again, 6)) == [*USERS[:6]]
    assert again.quiet()


def test_a_connected_client_gets_the_crossings_of_a_topic_that_is_created_anew(
    services: Services, gateway: Asgi, visits: Visits
) -> None:
    client = listen(services, gateway)
    visits.cross(*USERS)
    assert len([*heard(client, len(USERS))]) == len(USERS)
    visits.create_anew()
    visits.cross(2)
    assert client.next().data["key"] == 2


@pytest.mark.parametrize("own", [3, 100])
def test_a_client_gets_the_crossings_that_it_missed_once_each(
    services: Services, gateway: Asgi, visits: Visits, monkeypatch: pytest.MonkeyPatch, own: int
) -> None:
    monkeypatch.setattr("services.gateway.streams.crossings.OWN", own)
    client = listen(services, gateway)
    visits.cross(*USERS[:20])
    seen = [*heard(client, 7)]
    client.leave()
    visits.cross(*USERS[20:])
    other = services.app(watch_ms=20)
    again = listen(services, other, seen[-1].id)
    visits.feed(*USERS)
    seen += heard(again, len(USERS) - 7)
    assert sorted(each.data["key"] for each in seen) == [*USERS]
    assert again.quiet()


def test_a_slow_client_misses_nothing(
    services: Services, gateway: Asgi, visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.streams.crossings.PAGES", 1)
    fast, slow = listen(services, gateway), listen(services, gateway)
    slow.busy()
    for user in USERS[:10]:
        visits.cross(user)
        assert fast.next().data["key"] == user
    slow.free()
    assert sorted(each.data["key"] for each in heard(slow, 10)) == [*USERS[:10]]


def test_an_answer_has_crossings_up_to_so_many_bytes_of_ids(
    services: Services, gateway: Asgi, visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamstate.profile.rules.crossings.MOST_ID_BYTES", 200)
    client = listen(services, gateway)
    visits.cross(*USERS)
    read = services.gateway().get("/v1/rules/alarms/third?limit=1000").get_json()
    assert 200 <= sum(len(crossing["id"]) for crossing in read["crossings"]) < 200 + len(read["end"]) + 1
    assert read["end"] == read["crossings"][-1]["id"]
    assert sorted(each.data["key"] for each in heard(client, len(USERS))) == [*USERS]


def test_a_stream_outlives_an_instance(services: Services, gateway: Asgi, visits: Visits) -> None:
    client = listen(services, gateway)
    services.at[APP.name][0].stop()
    visits.cross(1)
    assert client.next().data["key"] == 1


def test_no_stream_names_a_deleted_user(services: Services, gateway: Asgi, visits: Visits) -> None:
    visits.cross(*USERS)
    visits.delete(2)
    client = listen(services, gateway, "visits:0=0")
    assert {each.data["key"] for each in heard(client, len(USERS) - 1)} == {*USERS} - {2}
    assert client.quiet()


def test_two_profiles_with_a_rule_of_one_name_are_told_apart(services: Services, visits: Visits) -> None:
    others = Visits(services, profile_app(parse(YAML.replace("alarms", "alerts").replace("  many", "  more"))))
    gateway = services.app(watch_ms=20)
    both = listen(services, gateway)
    assert both.status == 404
    assert "/v1/rules/alarms/third/stream or /v1/rules/alerts/third/stream" in "".join(both.blocks)
    client = listen(services, gateway, path="/v1/rules/alerts/third/stream")
    of_one = listen(services, gateway, path="/v1/rules/more/stream")
    visits.cross(1)
    others.cross(2)
    others.feed(2, 2)
    assert client.next().data["key"] == 2
    assert of_one.next().data == {"rule": "more", "key": 2, "value": 5, "at": 1_000}


def test_a_topic_with_too_many_partitions_has_no_streams(
    services: Services, gateway: Asgi, visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.streams.crossings.LONGEST", len("visits%3A0%3D3%3B+id%3Dvisits"))
    client = listen(services, gateway)
    visits.cross(*USERS)
    end = client.next()
    assert (end.name, end.data["status"]) == ("problem", 404)
    assert end.data["detail"] == "the id of an event has too many partitions for a header; read the topic alarms-rules"
    until(lambda: client.ended)
    assert listen(services, gateway).status == 404


@pytest.mark.parametrize(
    ("path", "last_id", "status", "reason"),
    [
        ("/v1/rules/fourth/stream", "", 404, "there is no such rule; the rules are /v1/rules/alarms/many, "),
        (STREAM, "garbage", 400, "Last-Event-ID: this is no id of an event of this stream"),
        (STREAM, "visits:4=1", 400, "Last-Event-ID: this is no id of an event of this stream"),
        (STREAM, "visits:*=1", 400, "Last-Event-ID: this is no id of an event of this stream"),
        (STREAM, ",".join(["visits:0=1"] * 600), 404, "the id of an event has too many partitions for a header"),
        (STREAM, "visits:0=1", 400, "Last-Event-ID: this is no id of an event of this stream"),
        (STREAM, "plays:0=1", 400, "Last-Event-ID: this is no id of an event of this stream"),
    ],
)
def test_a_bad_request_is_told_why(
    services: Services, gateway: Asgi, path: str, last_id: str, status: int, reason: str
) -> None:
    client = listen(services, gateway, last_id, path)
    assert client.status == status
    assert reason in "".join(client.blocks)


def test_the_streams_count_towards_the_limit(services: Services, gateway: Asgi) -> None:
    clients = [listen(services, gateway) for _ in range(4)]
    assert [client.status for client in clients] == [200, 200, 200, 503]
    clients[0].leave()
    assert listen(services, gateway).status == 200


def test_a_stream_ends_with_the_reason_when_the_rule_is_gone(services: Services, visits: Visits) -> None:
    gateway = services.app(watch_ms=20, owners_ttl_s=0.1)
    client, other = listen(services, gateway), listen(services, gateway, path="/v1/rules/many/stream")
    changed = profile_app(parse(YAML.replace("third:", "fourth:")))
    services.replace(changed)
    end = client.next()
    assert (end.name, end.data["status"]) == ("problem", 404)
    until(lambda: client.ended)
    services.replace(APP)
    visits.feed(*[1] * 5)
    assert other.next().data["rule"] == "many"
