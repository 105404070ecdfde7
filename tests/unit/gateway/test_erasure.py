"""The gateway about one user: deletion, how far it is, and the export, over the services and a topic in memory."""

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner
from werkzeug.test import Client

from devkit.servers.child_process import free_port
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from streamstate.app import App
from streamstate.cli.main import app as command
from streamstate.cli.users import removal
from streamstate.erasure.applying import pending, steps
from streamstate.keys import LONG, partition_of
from streamstate.state.store import Origin
from streamstate.testing import FixedTopics
from streamstate_client import Client as Calls
from streamstate_client import Deletion as Progress
from streamstate_client.asynchronous import AsyncClient
from tests.deletions import InMemory
from tests.serving import Loop, Serve
from tests.unit.gateway.deployment import FAN, PARTITIONS, RECOMMENDATIONS, STRANGER, USER, Services, started

PATH = f"/v1/users/{USER}"


@pytest.fixture
def topics() -> FixedTopics:
    return FixedTopics({"user-deletions": 1})


@pytest.fixture
def deletions(topics: FixedTopics) -> InMemory:
    return InMemory(topics)


@pytest.fixture
def deployment(serve: Serve, loop: Loop, topics: FixedTopics, deletions: InMemory) -> Services:
    return started(Services(serve, loop, topics=topics, deletions=deletions))


@pytest.fixture
def client(deployment: Services) -> Client:
    return deployment.gateway()


def apply(deployment: Services, deletions: InMemory, app: App) -> None:
    """What the stream of `app` does when its query begins."""
    store = deployment.stores[app.name]
    origins = {topic: Origin(topic, PARTITIONS) for topic in app.topics}
    for partition in range(PARTITIONS):
        owner = store.read({partition: []})[partition].owner or ""
        claim = store.claim(partition, owner, {}, origins)
        asked = deletions.deletions.asked(app.name, partition, {topic: topic for topic in app.topics})
        for step in steps(app, store, claim, origins, pending(asked, claim)):
            deletions.write(step.receipts)
            store.commit(step.commit)


def test_a_user_is_deleted_from_all_services(deployment: Services, deletions: InMemory, client: Client) -> None:
    asked = client.delete(PATH)
    assert asked.status_code == 202
    assert asked.headers["Location"] == f"{PATH}/deletion"
    assert not asked.get_json()["done"]
    assert client.get(PATH).status_code == 200
    for app in (METRICS, NAMES, RECOMMENDATIONS):
        assert not client.get(asked.headers["Location"]).get_json()["done"]
        apply(deployment, deletions, app)
    deployment.play([])
    deletion = client.get(asked.headers["Location"]).get_json()
    assert deletion["done"]
    assert {each["service"] for each in deletion["services"]} == {"metrics", "names", "recommendations"}
    partition = partition_of(LONG.encode(USER), PARTITIONS)
    assert [each["partition"] for of in deletion["services"] for each in of["partitions"]] == 3 * [partition]
    for path in (PATH, f"{PATH}/metrics", f"{PATH}/recent", f"{PATH}/export"):
        assert client.get(path).status_code == 404, path
    for live in deployment.graphs:
        assert live.played(str(USER)) == {"artists": [], "albums": [], "tracks": []}
        assert USER not in live.held.view("artists").user_names.external
    assert client.get(f"/v1/users/{FAN}").get_json()["eventCount"] == 2


def test_the_graph_answers_while_it_is_loaded_without_a_user(deployment: Services, deletions: InMemory) -> None:
    client = deployment.gateway()
    assert client.delete(PATH).status_code == 202
    apply(deployment, deletions, RECOMMENDATIONS)
    for live in deployment.graphs:
        live.step()
        assert live.graph()
    assert client.get(f"/v1/users/{FAN}/recommendations/artists").status_code == 200


def test_an_export_has_what_all_services_hold(client: Client) -> None:
    export = client.get(f"{PATH}/export").get_json()
    held = {each["service"]: each["held"] for each in export["services"]}
    assert export["userId"] == str(USER)
    assert held["metrics"][f"numbers:{USER}"] == {"#": 3, "first": 1_000, "last": 3_000}
    assert held["metrics"][f"artists.values:{USER}"] == [["a1", 2], ["a9", 1]]
    assert len(held["names"][f"plays:{USER}"]) == 3
    assert sorted(held["recommendations"]["artists"]) == [1, 1, 9]
    assert all(each["truncated"] == [] for each in export["services"])
    assert client.get(f"/v1/users/{STRANGER}/export").status_code == 404


def test_an_id_that_no_service_has(client: Client) -> None:
    assert client.delete("/v1/users/anna").status_code == 404
    assert client.delete("/v1/users/%00").status_code == 400


def test_a_service_that_is_away_is_not_passed_over(deployment: Services, client: Client) -> None:
    for served in deployment.at["names"]:
        served.stop()
    for response in (client.delete(PATH), client.get(f"{PATH}/export")):
        assert response.status_code == 503
        assert "Retry-After" in response.headers


def test_without_a_topic_users_are_not_deleted(serve: Serve, loop: Loop) -> None:
    response = started(Services(serve, loop)).gateway().delete(PATH)
    assert response.status_code == 404
    assert "STREAMSTATE_DELETIONS" in response.get_json()["detail"]


def test_the_clients_do_the_same(
    deployment: Services, deletions: InMemory, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://{serve(f'127.0.0.1:{free_port()}', deployment.app()).address}"
    blocking = Calls(url)
    assert len(blocking.export(USER)["services"]) == 3
    assert not blocking.delete(USER).done

    async def both() -> tuple[Progress, Progress]:
        async with AsyncClient(url) as client:
            return await client.delete(USER), await client.deletion(USER)

    first, second = asyncio.run(both())
    assert first == second == blocking.deletion(USER)
    monkeypatch.setenv("STREAMSTATE_GATEWAY", url)
    before = deletions.end
    waiting = CliRunner().invoke(command, ["erase", str(USER), "--yes", "--wait=0"])
    assert (waiting.exit_code, waiting.stdout.count("waiting")) == (1, 3)
    assert deletions.end == before, "a deletion that goes on is not asked for again"
    assert CliRunner().invoke(command, ["erase", str(USER)], input="n").exit_code == 1
    assert json.loads(CliRunner().invoke(command, ["export", str(USER)]).stdout)["userId"] == str(USER)
    for app in (METRICS, NAMES, RECOMMENDATIONS):
        apply(deployment, deletions, app)
    assert blocking.deletion(USER).done
    assert CliRunner().invoke(command, ["erase", str(STRANGER), "--yes", "--wait=0"]).exit_code == 1
    assert CliRunner().invoke(command, ["erase", str(USER), "--yes", "--wait=0"]).exit_code == 1
    assert deletions.end > before, "one that is done is asked for anew"


def test_a_deletion_whose_receipts_cannot_be_read_is_asked_for_all_the_same(
    deployment: Services, deletions: InMemory, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = serve(f"127.0.0.1:{free_port()}", deployment.app())
    monkeypatch.setenv("STREAMSTATE_GATEWAY", f"http://{gateway.address}")
    monkeypatch.setattr(removal, "PAUSE_S", 0.01)
    answer = gateway.app

    def without_receipts(environ: Any, start_response: Any) -> Any:
        """The instances cannot read Redis once something was asked for."""
        if deletions.end and environ["REQUEST_METHOD"] == "GET":
            start_response("503 Service Unavailable", [("Content-Type", "application/problem+json")])
            return [b'{"type": "urn:x", "title": "x", "status": 503, "detail": "Redis does not answer"}']
        return answer(environ, start_response)

    gateway.app = without_receipts
    first = CliRunner().invoke(command, ["erase", str(USER), "--yes", "--wait=0.1"])
    assert (first.exit_code, first.stdout.count("waiting")) == (5, 3)
    assert "requested, and its receipts cannot be read at present (Redis does not answer)" in first.stderr
    before = deletions.end
    again = CliRunner().invoke(command, ["erase", str(USER), "--yes", "--wait=0.1"])
    assert (again.exit_code, deletions.end) == (4, before)
