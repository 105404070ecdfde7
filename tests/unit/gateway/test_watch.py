"""Profiles as streams: what the clients of a gateway see while plays come in."""

import threading
from itertools import count as count_up
from itertools import islice
from typing import Any

import pytest
from werkzeug.test import Client

from services.gateway.access.limits import Lease, OwnBuckets
from services.gateway.routing.directory import LocatedPart
from services.gateway.users import Users
from streamstate.keys import LONG, partition_of
from streamstate.web.partition_map import VERSIONS
from streamstate.web.server.asgi import Asgi
from tests.listening import Listener
from tests.serving import sample, scrape
from tests.unit.gateway.deployment import FAN, PARTITIONS, USER, Services
from tests.unit.gateway.test_api import without_scores
from tests.waiting import pausing, until

"""Several looks."""


@pytest.fixture
def gateway(deployment: Services) -> Asgi:
    return deployment.app(watch_ms=20, streams=3)


def listen(deployment: Services, gateway: Asgi, user: int, query: str = "", last_id: str = "") -> Listener:
    return Listener(deployment.loop, gateway, f"/v1/users/{user}/stream{query}", last_id)


def neighbours(user: int, count: int) -> list[int]:
    """So many other users of the same partition."""
    same = partition_of(LONG.encode(user), PARTITIONS)
    others = (other for other in count_up(1_000) if partition_of(LONG.encode(other), PARTITIONS) == same)
    return list(islice(others, count))


async def none_left(_buckets: OwnBuckets, *_limit: Any, **_tokens: Any) -> Lease:
    return Lease(0, 0, 1.0)


def read(deployment: Services, user: int, query: str = "?explain=true") -> Any:
    return deployment.gateway().get(f"/v1/users/{user}{query}").get_json()


def asked(deployment: Services, path: str) -> int:
    return sum(seen.startswith(f"{path}?metrics") for one in deployment.at["metrics"] for seen in one.seen)


def bulk_reads(deployment: Services) -> int:
    return asked(deployment, "/v1/many")


def test_the_first_event_is_what_a_read_answers(deployment: Services, gateway: Asgi) -> None:
    client = listen(deployment, gateway, USER)
    first = client.next()
    assert (first.name, without_scores(first.data)) == ("profile", without_scores(read(deployment, USER)))
    assert first.data["artistRecommendations"][0]["why"]
    assert client.headers["Content-Type"] == "text/event-stream"
    assert client.headers["Cache-Control"] == "no-store, no-transform"
    assert client.blocks[0] == "retry: 1000\n\n"


def test_a_play_is_told_to_all_who_watch_the_user_and_to_nobody_else(deployment: Services, gateway: Asgi) -> None:
    clients = [listen(deployment, gateway, user) for user in (USER, USER, FAN)]
    assert [client.next().data["eventCount"] for client in clients] == [3, 3, 2]
    deployment.play([(USER, 1, 2, 3, 9_000)])
    assert [client.next().data["eventCount"] for client in clients[:2]] == [4, 4]
    assert clients[2].quiet()


def test_the_id_of_an_event_is_where_the_state_was(deployment: Services, gateway: Asgi) -> None:
    client = listen(deployment, gateway, USER)
    home = partition_of(LONG.encode(USER), PARTITIONS)
    assert client.next().id == f"listening-events:{home}=3"
    deployment.play([(USER, 1, 2, 3, 9_000), (USER, 1, 2, 3, 9_000)])
    # The recommendations are still those of before.
    assert client.next().id == f"listening-events:{home}=5; 1 behind"


def test_plays_of_others_in_the_partition_are_not_told(deployment: Services, gateway: Asgi) -> None:
    client, (other,) = listen(deployment, gateway, USER), neighbours(USER, 1)
    client.next()
    for _ in range(2):
        looks = asked(deployment, VERSIONS)
        deployment.play([(other, 1, 2, 3, 9_000)])
        until(lambda before=looks: asked(deployment, VERSIONS) > before)  # type: ignore[misc]
        assert client.quiet()
    # The first read has no known version.
    assert bulk_reads(deployment) == 2


def test_a_client_that_was_away_gets_only_what_it_has_not(deployment: Services, gateway: Asgi) -> None:
    client = listen(deployment, gateway, USER)
    last = client.next().id
    client.leave()
    again = listen(deployment, gateway, USER, last_id=last)
    assert again.quiet()
    again.leave()
    deployment.play([(USER, 1, 2, 3, 9_000)])
    assert listen(deployment, gateway, USER, last_id=last).next().data["eventCount"] == 4


def test_a_client_that_takes_nothing_gets_the_newest_profile_next(deployment: Services, gateway: Asgi) -> None:
    fast, slow = (listen(deployment, gateway, USER) for _ in range(2))
    slow.next()
    slow.busy()
    for number in range(4, 9):
        deployment.play([(USER, 1, 2, 3, 9_000)])
        until(lambda count=number: fast.next().data["eventCount"] == count)  # type: ignore[misc]
    slow.free()
    # One was on its way already.
    assert slow.next().data["eventCount"] == 4
    assert slow.next().data["eventCount"] == 8


def test_what_any_instance_answers_waits_for_its_turn_and_what_owners_answer_does_not(
    deployment: Services, gateway: Asgi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnBuckets, "lease", none_left)
    client = listen(deployment, gateway, USER)
    first = client.next().data
    deployment.play([(USER, 5, 6, 7, 9_000)])
    early = client.next().data
    assert early["eventCount"] == 4
    assert early["artistRecommendations"] == first["artistRecommendations"]
    monkeypatch.undo()
    assert client.next().data["artistRecommendations"] != first["artistRecommendations"]


@pytest.mark.parametrize("stays", [True, False], ids=["while another listens", "while nobody listens"])
def test_what_any_instance_answers_is_sent_to_a_client_that_was_away_when_it_came(
    deployment: Services, gateway: Asgi, monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    monkeypatch.setattr(OwnBuckets, "lease", none_left)
    client, other = (listen(deployment, gateway, USER) for _ in range(2))
    first, _ = client.next(), other.next()
    deployment.play([(USER, 5, 6, 7, 9_000)])
    early, _ = client.next(), other.next()
    assert early.data["artistRecommendations"] == first.data["artistRecommendations"]
    client.leave()
    if not stays:
        other.leave()
    monkeypatch.undo()
    if stays:
        other.next()
    missed = listen(deployment, gateway, USER, last_id=early.id).next()
    assert missed.data["artistRecommendations"] != early.data["artistRecommendations"]
    assert missed.id == early.id.partition("; ")[0]


def test_what_any_instance_answers_does_not_hold_up_what_owners_answer(
    deployment: Services, gateway: Asgi, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = listen(deployment, gateway, USER)
    client.next()
    part, goes_on = Users.part, threading.Event()

    async def hanging(users: Users, located: LocatedPart, *asked: Any) -> dict[str, Any]:
        while located.view.anywhere and not goes_on.is_set():
            await pausing(0.01)
        return await part(users, located, *asked)

    monkeypatch.setattr(Users, "part", hanging)
    for number in (4, 5):
        deployment.play([(USER, 5, 6, 7, 9_000)])
        assert client.next().data["eventCount"] == number
    goes_on.set()
    assert client.next().data["fallbacks"]


def test_an_owner_that_goes_loses_nothing(deployment: Services, gateway: Asgi) -> None:
    client = listen(deployment, gateway, USER)
    client.next()
    deployment.owner(USER).stop()
    deployment.play([(USER, 1, 2, 3, 9_000)])
    assert client.next().data["eventCount"] == 4


def test_a_part_that_is_away_costs_only_itself(deployment: Services, gateway: Asgi) -> None:
    deployment.at["names"][0].stop()
    client = listen(deployment, gateway, USER, "?parts=recent,metrics")
    first = client.next().data
    assert (first["eventCount"], first["recent"]) == (3, [])
    assert any(warning.startswith("recent: ") for warning in first["warnings"])
    deployment.play([(USER, 1, 2, 3, 9_000)])
    assert client.next().data["eventCount"] == 4


def test_the_open_streams_are_counted(deployment: Services, gateway: Asgi) -> None:
    client = Client(deployment.loop.wsgi(gateway))

    def counted() -> float | None:
        return sample(scrape(client), "streamstate_open_streams", service="gateway")

    assert counted() == 0
    listeners = [listen(deployment, gateway, user) for user in (USER, FAN)]
    for listener in listeners:
        listener.next()
    assert counted() == 2
    listeners[0].leave()
    assert counted() == 1


def test_a_failure_ends_the_stream_and_is_logged(
    deployment: Services, gateway: Asgi, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(Listener):
        async def _send(self, message: dict[str, Any]) -> None:
            if b"data: " in message.get("body", b""):
                raise ArithmeticError
            await super()._send(message)

    client = Failing(deployment.loop, gateway, "/v1/users/1/stream")
    until(lambda: client.ended)
    logged = capsys.readouterr().err
    assert "ArithmeticError" in logged
    assert "/v1/users/<key>/stream" in logged
