"""The client for programs with threads. Its calls block, and may be made from several threads."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from streamstate_client import protocol
from streamstate_client.answers import Deletion, ListenerProfile
from streamstate_client.errors import Unavailable
from streamstate_client.protocol import Event, Parser, Reply, about, decoded, unreachable, user_path


def _ignore(_error: Unavailable) -> None:
    pass


class Client:
    """A gateway at `url`, such as http://127.0.0.1:8080; `key` is an API key or token."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url = url.rstrip("/")
        self._http = urllib3.PoolManager(headers=protocol.headers(key), retries=False)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON at `path`, query included. Raises `Refused` with the detail of a problem, or `Unavailable`."""
        return self.reply(path, headers).value

    def reply(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """As `get`, with the position of the answer's state."""
        answer = self._request(path, headers=headers)
        value = decoded(self.url, answer.status, answer.data, Any)
        return Reply(value, answer.headers.get(protocol.POSITION, ""))

    def user(self, user: int, parts: Iterable[str] = (), *, explain: bool = False) -> ListenerProfile:
        """The profile of a user, or only these `parts`. Raises `Refused` (404 for an unknown user), `Unavailable`.

        explain: add the reasons of recommendations.
        """
        profile: ListenerProfile = self._get(user_path(user, parts, explain=explain), ListenerProfile)
        return profile

    def delete(self, user: int | str) -> Deletion:
        """Ask all services to forget a user. Raises `Refused` (403 without the scope admin), `Unavailable`.

        The deletion takes some seconds: see `deletion`. The call may be repeated.
        """
        deletion: Deletion = self._get(about(user), Deletion, "DELETE")
        return deletion

    def deletion(self, user: int | str) -> Deletion:
        """The progress of a user's deletion. Raises like `delete`; 404 without a request of deletion."""
        deletion: Deletion = self._get(about(user, "/deletion"), Deletion)
        return deletion

    def export(self, user: int | str) -> Any:
        """All data of a user in the services. Raises like `delete`; 404 without data."""
        return self._get(about(user, "/export"), Any)

    def watch(self, user: int, parts: Iterable[str] = ()) -> Generator[ListenerProfile | None, None, None]:
        """The current profile and every changed profile, without end; None for an unknown user.

        Connects again after a lost connection. Raises `Refused`.
        """
        path = user_path(user, parts, explain=False, stream=True)
        for event in self.follow(path):
            yield msgspec.json.decode(event.data, type=ListenerProfile | None)

    def follow(self, path: str, lost: Callable[[Unavailable], None] = _ignore) -> Iterator[Event]:
        """The events of the stream at `path`, without end. `lost` is called before each new connection."""
        last = ""
        while True:
            try:
                for event in self._events(path, last):
                    last = event.id
                    yield event
            except Unavailable as error:
                lost(error)
            time.sleep(protocol.RETRY_S)

    def _get(self, path: str, kind: Any, method: str = "GET") -> Any:
        answer = self._request(path, method)
        return decoded(self.url, answer.status, answer.data, kind)

    def _request(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        timeout = urllib3.Timeout(connect=protocol.CONNECT_S, read=protocol.ANSWER_S)
        own = {**self._http.headers, **(headers or {})}
        try:
            return self._http.request(method, f"{self.url}{path}", headers=own, timeout=timeout)
        except HTTPError as error:
            raise unreachable(self.url) from error

    def _events(self, path: str, last: str) -> Iterator[Event]:
        """The events of a connection after the event with the id `last`. Raises `Refused` and `Unavailable`."""
        timeout = urllib3.Timeout(connect=protocol.CONNECT_S, read=protocol.SILENCE_S)
        own = {**self._http.headers, **({protocol.LAST_EVENT_ID: last} if last else {})}
        try:
            url = f"{self.url}{path}"
            answer = self._http.request("GET", url, headers=own, timeout=timeout, preload_content=False)
            with closing(answer):
                if answer.status != 200:
                    decoded(self.url, answer.status, answer.read(), Any)
                parser = Parser()
                for line in answer:
                    if event := parser.feed(line):
                        yield event
        except HTTPError as error:
            raise unreachable(self.url) from error
