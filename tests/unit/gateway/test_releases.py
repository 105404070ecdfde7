"""Two releases of a service at one gateway: the record names the live one, and no answer mixes both."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import urllib3
from structlog.testing import capture_logs

from devkit.servers.child_process import free_port
from services.gateway.routing.directory import BESIDE, Directory, ServiceMap
from services.gateway.routing.owners import LEAST_S, LIVE_S, Owners
from services.metrics.model import APP as METRICS
from streamstate.app import App
from streamstate.deployment.overrides import renamed
from streamstate.releases import file
from streamstate.releases.record import Releases, encoded, first, staged, switched
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin
from streamstate.testing import Driver, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from streamstate.web.http.request import Response
from streamstate.web.partition_map import Processors, ViewEntry
from tests.listening import Listener
from tests.raw import feed_plays
from tests.serving import Served, soon
from tests.unit.gateway.deployment import PARTITIONS, USER, Services, _settings
from tests.waiting import until_equal

SECOND = "metrics-2"
BOTH = staged(first("metrics"), SECOND)
PLAYS = [(USER, 1, 2, 3, 1_000)] * 7
"""In the second release only, so that its answers differ."""


class Recorded(MemoryReader):
    """A reader beside the record of the releases, the same of all instances."""

    record: Releases | None = None

    async def releases(self, of: str) -> bytes | None:
        assert of == "metrics"
        return encoded(Recorded.record) if Recorded.record else None


@pytest.fixture(autouse=True)
def record() -> Iterator[None]:
    yield
    Recorded.record = None


class Side:
    """A second release beside `deployment`'s metrics, with further plays of the user."""

    def __init__(self, deployment: Services) -> None:
        self.deployment = deployment
        self.app = renamed(METRICS, SECOND, {}, release_of="metrics")
        self.store = MemoryStore()
        self.served = self.serve(self.app, self.store)
        feed_plays(Driver(self.app, self.store, PARTITIONS), [*[(USER, 9, 8, 3, 2_000)] * 4, *PLAYS])
        self.own(self.app, self.store, self.served.address)
        first_of = deployment.at["metrics"]
        for served in first_of:
            served.stop()
        self.first = self.serve(METRICS, deployment.stores["metrics"])
        self.own(METRICS, deployment.stores["metrics"], self.first.address)

    def serve(self, app: App, store: MemoryStore) -> Served:
        address = f"127.0.0.1:{free_port()}"
        freshness = Freshness(self.deployment.topics, app.topics)
        return self.deployment.serve(address, build(app, _settings(advertise=address), Recorded(store), freshness))

    def own(self, app: App, store: MemoryStore, address: str) -> None:
        for partition in range(PARTITIONS):
            store.claim(partition, address, {}, {topic: Origin(topic, PARTITIONS) for topic in app.topics})

    def addresses(self) -> dict[str, list[str]]:
        own = {service: [one.address for one in served] for service, served in self.deployment.at.items()}
        return {**own, "metrics": [self.first.address], f"metrics{BESIDE}{SECOND}": [self.served.address]}


@pytest.fixture
def side(deployment: Services, monkeypatch: pytest.MonkeyPatch) -> Side:
    side = Side(deployment)
    monkeypatch.setattr(deployment, "addresses", side.addresses)
    return side


def count(client: Any, path: str = f"/v1/users/{USER}/metrics") -> Any:
    return client.get(path).get_json().get("eventCount")


def test_the_release_that_the_record_names_answers_within_a_second(side: Side) -> None:
    Recorded.record = BOTH
    client = side.deployment.gateway(owners_ttl_s=3_600)
    until_equal(lambda: count(client), 3)
    Recorded.record = switched(BOTH, SECOND)
    until_equal(lambda: count(client), 11)
    until_equal(lambda: count(client, f"/v1/users/{USER}?parts=metrics"), 11)
    Recorded.record = switched(Recorded.record, "metrics")
    until_equal(lambda: count(client), 3)
    assert LIVE_S + LEAST_S < 1


def test_the_newest_record_decides_when_instances_tell_different_ones() -> None:
    def told(deployment: str, name: str, live: str, number: int) -> ServiceMap:
        return ServiceMap(deployment, Processors(name, {}, [], [], [], live=live, switches=number))

    beside = f"metrics{BESIDE}{SECOND}"
    old = {"metrics": told("metrics", "metrics", "metrics", 3), beside: told(beside, SECOND, SECOND, 4)}
    assert Directory([*old], old).service("metrics").deployment == beside
    back = {"metrics": told("metrics", "metrics", "metrics", 5), beside: told(beside, SECOND, SECOND, 4)}
    assert Directory([*back], back).service("metrics").deployment == "metrics"


def test_the_system_has_both_releases_and_each_map_its_own_path(side: Side) -> None:
    Recorded.record = switched(BOTH, SECOND)
    client = side.deployment.gateway()
    services = client.get("/v1/system").get_json()["services"]
    found = [(of["name"], of["service"], of["release"], of["live"]) for of in services if of["service"] == "metrics"]
    assert found == [("metrics", "metrics", "metrics", False), (SECOND, "metrics", SECOND, True)]
    assert client.get(f"/v1/{SECOND}/processors").get_json()["live"] == SECOND
    assert client.get("/v1/metrics/processors").get_json()["service"] == "metrics"


def test_metrics_tell_on_which_release_clients_depend(side: Side) -> None:
    def used() -> list[str]:
        texts = [
            urllib3.request("GET", f"http://{one.address}/metrics").data.decode() for one in (side.first, side.served)
        ]
        return [line for text in texts for line in text.splitlines() if line.startswith("streamstate_in_use")]

    first_only = ['streamstate_in_use{service="metrics"} 1.0', 'streamstate_in_use{service="metrics-2"} 0.0']
    for record in (BOTH, switched(switched(BOTH, SECOND), "metrics")):
        Recorded.record = record
        assert used() == first_only
    Recorded.record = None
    assert used()[0] == first_only[0]


def test_a_request_is_answered_by_one_release_whatever_changes_meanwhile(side: Side) -> None:
    """The directory of a request stays: many keys, over all owners, while the live release changes all the time."""
    Recorded.record = BOTH
    owners = Owners(side.deployment.upstream(), ttl_s=0.01)
    loop, ended = side.deployment.loop, threading.Event()
    loop.run(owners.refresh())
    router, users = side.deployment.router(), [str(user) for user in range(USER, USER + 40)]
    seen = set()

    def turn() -> None:
        while not ended.is_set():
            assert Recorded.record
            Recorded.record = switched(Recorded.record, SECOND if Recorded.record.live == "metrics" else "metrics")
            loop.run(owners.refresh())

    turning = threading.Thread(target=turn)
    turning.start()
    try:
        for _ in range(60):
            at = owners.now
            deployment = at.service("metrics").deployment
            answer = loop.run(router.many(at, [("metrics", user) for user in users], soon()))
            number = answer["metrics"][str(USER)]["eventCount"]
            assert number == {"metrics": 3}.get(deployment, 11)
            seen.add(number)
    finally:
        ended.set()
        turning.join()
    assert seen == {3, 11}


def test_a_release_that_is_not_live_is_asked_for_by_a_header(side: Side) -> None:
    Recorded.record = BOTH
    client = side.deployment.gateway()
    path = f"/v1/users/{USER}/metrics"
    for release, number in (("metrics", 3), (SECOND, 11)):
        assert client.get(path, headers={"X-Release": release}).get_json()["eventCount"] == number
    assert client.get("/openapi.json", headers={"X-Release": SECOND}).status_code == 200
    assert count(client) == 3


def test_a_release_that_has_not_answered_yet_is_not_ready(side: Side) -> None:
    client = side.deployment.gateway()
    side.served.stop()
    late = side.deployment.gateway()
    headers = {"X-Release": SECOND}
    assert client.get("/openapi.json", headers=headers).status_code == 200
    assert late.get("/openapi.json", headers=headers).status_code == 503


def test_an_open_stream_goes_over_with_one_event_and_stays_open(side: Side) -> None:
    Recorded.record = BOTH
    gateway = side.deployment.app(watch_ms=20, streams=3, owners_ttl_s=60)
    client = Listener(side.deployment.loop, gateway, f"/v1/users/{USER}/stream?parts=metrics", "")
    assert client.next().data["eventCount"] == 3
    Recorded.record = switched(BOTH, SECOND)
    assert client.next().data["eventCount"] == 11
    Recorded.record = switched(Recorded.record, "metrics")
    assert client.next().data["eventCount"] == 3


def test_a_stream_of_an_unmoved_partition_goes_over_too(side: Side) -> None:
    """Both releases may stand at the same offsets: the release is a part of the place."""
    feed_plays(Driver(METRICS, side.deployment.stores["metrics"], PARTITIONS), [(USER, 5, 5, 5, 9_000)] * 8)
    Recorded.record = BOTH
    gateway = side.deployment.app(watch_ms=20, streams=3)
    client = Listener(side.deployment.loop, gateway, f"/v1/users/{USER}/stream?parts=metrics", "")
    client.next()
    Recorded.record = switched(BOTH, SECOND)
    assert client.next().data["topTenArtists"][0]["id"] == 1


def test_releases_come_and_go_with_the_file(side: Side, tmp_path: Path) -> None:
    path = tmp_path / "releases.json"
    addresses: Mapping[str, list[str]] = {"metrics": [side.first.address], "names": side.addresses()["names"]}
    side.deployment.addresses = lambda: dict(addresses)  # type: ignore[method-assign]
    Recorded.record = switched(BOTH, SECOND)
    client = side.deployment.gateway(releases=path, owners_ttl_s=0.1)
    assert client.get(f"/v1/users/{USER}/metrics").status_code == 503
    entry = file.ByHand(side.served.address, "services.metrics")
    file.change(path, "metrics", SECOND, entry)
    until_equal(lambda: count(client), 11)
    path.write_text("{")
    assert count(client) == 11
    path.unlink()
    for name, release in ((SECOND, entry), ("metrics", None)):
        file.change(path, "metrics", name, release)
    until_equal(lambda: len(client.get("/v1/system").get_json()["services"]), 2)
    assert count(client) == 11
    Recorded.record = switched(Recorded.record, "metrics")
    path.unlink()
    until_equal(lambda: count(client), 3)


def test_no_other_release_answers_while_the_live_one_is_unknown(side: Side) -> None:
    """As at the start of a gateway while the live release's API is away, and after a loss of the record."""
    Recorded.record = switched(BOTH, SECOND)
    side.served.stop()
    client = side.deployment.gateway()
    assert client.get(f"/v1/users/{USER}/metrics").status_code == 503
    Recorded.record = None
    side.deployment.stores["metrics"].fence(range(PARTITIONS), 2)
    assert side.deployment.gateway().get(f"/v1/users/{USER}/metrics").status_code == 503


def test_a_service_whose_own_deployment_is_gone_is_answered_by_its_release(side: Side) -> None:
    Recorded.record = switched(BOTH, SECOND)
    side.first.stop()
    client = side.deployment.gateway()
    assert count(client) == 11
    assert client.get("/readyz").status_code == 200


def test_a_view_of_a_release_only_is_found_while_it_is_live() -> None:
    extra = ViewEntry("more", "/v1/more/<key>", "listening-events", "long")
    beside = f"metrics{BESIDE}{SECOND}"
    new = Processors(SECOND, {"listening-events": 4}, [], [], [ViewEntry("m", "/v1/m", "", ""), extra], live="metrics")
    own = Processors("metrics", {"listening-events": 4}, [], [], [ViewEntry("m", "/v1/m", "", "")])
    maps = {"metrics": ServiceMap("metrics", own), beside: ServiceMap(beside, new)}
    assert "more" not in Directory([*maps], maps).keyed
    new.live, new.switches = SECOND, 2
    assert "more" in Directory([*maps], maps).keyed


class Maps:
    """An upstream of services with one view each, at the same path."""

    addresses: Mapping[str, list[str]] = {"metrics": ["a:1"], "evenings": ["b:1"]}

    async def get(self, deployment: str, *_: object) -> Response:
        entry = ViewEntry(deployment, f"/v1/users/<key>/{deployment[0]}", "plays", "long")
        same = ViewEntry(f"{deployment}-same", "/v1/users/<key>/same", "plays", "long")
        body = msgspec.json.encode(Processors(deployment, {"plays": 4}, [], [], [entry, same]))
        return Response(200, body, {})


def test_two_services_of_one_path_are_a_warning_once() -> None:
    owners = Owners(Maps(), ttl_s=1)  # type: ignore[arg-type]
    with capture_logs() as logs:
        for _ in range(2):
            asyncio.run(owners.refresh())
    [said] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert said["event"] == "two services have one path; give one another path"
    assert (said["path"], {said["answering"], said["hidden"]}) == ("/v1/users/<key>/same", set(Maps.addresses))
