"""The client for an event loop."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from streamstate_client import protocol
from streamstate_client.answers import Deletion, ListenerProfile
from streamstate_client.errors import Unavailable
from streamstate_client.protocol import Event, Parser, Reply, about, decoded, unreachable, user_path


class AsyncClient:
    """Like `Client`, for an event loop. A context manager; leaving the context closes the connections."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url = url.rstrip("/")
        self._headers = protocol.headers(key)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=protocol.CONNECT_S, sock_read=protocol.ANSWER_S)
        self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._open.close()

    @property
    def _open(self) -> aiohttp.ClientSession:
        assert self._session, "use it in `async with`"
        return self._session

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Any:
        """As `Client.get`."""
        return (await self.reply(path, headers)).value

    async def reply(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """As `Client.reply`."""
        async with self._request(path, headers=headers) as answer:
            value = decoded(self.url, answer.status, await answer.read(), Any)
            return Reply(value, answer.headers.get(protocol.POSITION, ""))

    async def user(self, user: int, parts: Iterable[str] = (), *, explain: bool = False) -> ListenerProfile:
        """As `Client.user`."""
        profile: ListenerProfile = await self._get(user_path(user, parts, explain=explain), ListenerProfile)
        return profile

    async def delete(self, user: int | str) -> Deletion:
        """As `Client.delete`."""
        deletion: Deletion = await self._get(about(user), Deletion, "DELETE")
        return deletion

    async def deletion(self, user: int | str) -> Deletion:
        """As `Client.deletion`."""
        deletion: Deletion = await self._get(about(user, "/deletion"), Deletion)
        return deletion

    async def export(self, user: int | str) -> Any:
        """As `Client.export`."""
        return await self._get(about(user, "/export"), Any)

    async def watch(self, user: int, parts: Iterable[str] = ()) -> AsyncGenerator[ListenerProfile | None, None]:
        """Like `Client.watch`. Leave by `contextlib.aclosing`, or the connection stays until the client closes."""
        path, last = user_path(user, parts, explain=False, stream=True), ""
        while True:
            try:
                async with aclosing(self._events(path, last)) as events:
                    async for event in events:
                        last = event.id
                        yield msgspec.json.decode(event.data, type=ListenerProfile | None)
            except Unavailable:
                pass
            await asyncio.sleep(protocol.RETRY_S)

    async def _get(self, path: str, kind: Any, method: str = "GET") -> Any:
        async with self._request(path, method) as answer:
            return decoded(self.url, answer.status, await answer.read(), kind)

    @asynccontextmanager
    async def _request(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        try:
            async with self._open.request(method, f"{self.url}{path}", headers=headers) as answer:
                yield answer
        except (aiohttp.ClientError, TimeoutError) as error:
            raise unreachable(self.url) from error

    async def _events(self, path: str, last: str) -> AsyncGenerator[Event, None]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=protocol.CONNECT_S, sock_read=protocol.SILENCE_S)
        own = {protocol.LAST_EVENT_ID: last} if last else {}
        try:
            async with self._open.get(f"{self.url}{path}", headers=own, timeout=timeout) as answer:
                if answer.status != 200:
                    decoded(self.url, answer.status, await answer.read(), Any)
                parser = Parser()
                async for line in answer.content:
                    if event := parser.feed(line):
                        yield event
        except (aiohttp.ClientError, TimeoutError) as error:
            raise unreachable(self.url) from error
