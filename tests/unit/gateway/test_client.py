"""The Python client, with threads and on an event loop, beside a gateway that is served."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from streamstate_client import Client, ListenerProfile, Refused, Reply, Unavailable, Unreachable
from streamstate_client.asynchronous import AsyncClient
from tests.serving import Served
from tests.unit.gateway.deployment import FAN, STRANGER, USER, Services

PAGE = Path("docs/client.md").read_text()


class Calls(Protocol):
    """What both clients can do."""

    def get(self, path: str) -> Any: ...
    def reply(self, path: str, headers: Mapping[str, str] | None = None) -> Reply: ...
    def user(self, user: int, parts: tuple[str, ...] = (), *, explain: bool = False) -> ListenerProfile: ...
    def watch(self, user: int, parts: tuple[str, ...] = ()) -> Generator[ListenerProfile | None, None, None]: ...


class Blocking:
    """The calls of an `AsyncClient`, each waited for."""

    def __init__(self, url: str, key: str = "") -> None:
        self._given = url, key

    def get(self, path: str) -> Any:
        return self._run(lambda client: client.get(path))

    def reply(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        reply: Reply = self._run(lambda client: client.reply(path, headers))
        return reply

    def user(self, user: int, parts: tuple[str, ...] = (), *, explain: bool = False) -> ListenerProfile:
        profile: ListenerProfile = self._run(lambda client: client.user(user, parts, explain=explain))
        return profile

    def watch(self, user: int, parts: tuple[str, ...] = ()) -> Generator[ListenerProfile | None, None, None]:
        async def following() -> AsyncGenerator[ListenerProfile | None, None]:
            async with AsyncClient(*self._given) as client, aclosing(client.watch(user, parts)) as profiles:
                async for profile in profiles:
                    yield profile

        with asyncio.Runner() as runner:
            profiles = following()
            try:
                while True:
                    yield runner.run(profiles.__anext__())
            finally:
                runner.run(profiles.aclose())

    def _run(self, call: Callable[[AsyncClient], Any]) -> Any:
        async def called() -> Any:
            async with AsyncClient(*self._given) as client:
                return await call(client)

        return asyncio.run(called())


@pytest.fixture(params=[Client, Blocking], ids=["threads", "loop"])
def client(request: pytest.FixtureRequest, gateway: Served, monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.setattr("streamstate_client.protocol.RETRY_S", 0.01)
    made: Calls = request.param(f"http://{gateway.address}/", "a-key")
    return made


def test_a_profile_has_all_that_the_gateway_answers_by_default(client: Calls) -> None:
    answer, profile = client.get(f"/v1/users/{USER}"), client.user(USER)
    assert set(answer) - {"fallbacks"} == set(profile.__struct_encode_fields__)
    assert (profile.user_id, profile.event_count) == (USER, answer["eventCount"])
    assert msgspec.to_builtins(profile)["topTenArtists"] == answer["topTenArtists"]


def test_the_position_of_a_reply_may_be_demanded_later(client: Calls) -> None:
    path = f"/v1/users/{USER}/metrics"
    reply = client.reply(path)
    place, _, offset = reply.position.rpartition("=")
    assert client.reply(path, {"X-Min-Position": reply.position}) == reply
    with pytest.raises(Unavailable, match="before the demanded position"):
        client.reply(path, {"X-Min-Position": f"{place}={int(offset) + 1}", "X-Deadline-Ms": "300"})


def test_parts_and_reasons_are_chosen(client: Calls) -> None:
    assert client.user(USER, ("recent",)) == ListenerProfile(USER)
    assert not any(item.why for item in client.user(USER).artist_recommendations)
    assert all(item.why for item in client.user(USER, explain=True).artist_recommendations)


def test_a_problem_is_refused_or_unavailable(client: Calls, deployment: Services) -> None:
    with pytest.raises(Refused, match="nothing is known") as refused:
        client.user(STRANGER)
    assert refused.value.status == 404
    for served in deployment.at["metrics"]:
        served.stop()
    with pytest.raises(Unavailable, match="ask again"):
        client.user(USER)


def test_what_is_no_gateway_is_unreachable(client: Calls, gateway: Served) -> None:
    def page(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/html")])
        return [b"<html>"]

    gateway.app = page
    with pytest.raises(Unreachable):
        client.user(USER)


# The gateway under test ends a stream after each event.
def test_a_user_is_watched_before_there_are_events_and_as_they_come(
    client: Calls, deployment: Services, gateway: Served
) -> None:
    with closing(client.watch(STRANGER, ("metrics",))) as profiles:
        assert next(profiles) is None
        for count in (1, 2):
            deployment.play([(STRANGER, 1, 2, 3, 1_000)])
            profile = next(profiles)
            assert profile
            assert profile.event_count == count
    assert "Last-Event-Id" in gateway.headers[-1]


def test_watching_goes_on_when_the_gateway_was_away(client: Calls, deployment: Services, gateway: Served) -> None:
    failing, app = iter([503, 500]), gateway.app

    def away(environ: Any, start_response: Any) -> Any:
        if status := next(failing, None):
            start_response(f"{status} Away", [("Content-Type", "application/problem+json")])
            return [b'{"detail": "away"}']
        return app(environ, start_response)

    with closing(client.watch(FAN, ("metrics",))) as profiles:
        assert next(profiles)
        gateway.app = away
        deployment.play([(FAN, 1, 2, 3, 1_000)])
        profile = next(profiles)
        assert profile
        assert profile.event_count == 3


@pytest.mark.parametrize("code", re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
def test_the_examples_run(code: str, gateway: Served, capsys: pytest.CaptureFixture[str]) -> None:
    own = code.replace("127.0.0.1:8080", gateway.address).replace("(1", f"({USER}")
    exec(compile(own, "docs/client.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert (printed[0].split()[0], printed[-1]) == ("3", "3")
