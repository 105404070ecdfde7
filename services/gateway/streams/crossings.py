"""Crossings of rules as streams: the view of a rule is polled once for all clients."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import msgspec

from services.gateway.routing.directory import Directory, not_found
from services.gateway.routing.owners import Owners
from services.gateway.routing.router import Router
from streamstate.errors import StreamStateError
from streamstate.profile.rules.crossings import END, MOST, MOST_ID_BYTES, RULES, Crossing, rules_topic
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import LAST_EVENT_ID, ServerSentEvent
from streamstate.web.http.parameters import bad_parameter
from streamstate.web.http.problems import Problem, is_final

CROSSING = "crossing"
"""The type of the events."""

EXAMPLE = Crossing("binge", 1, 51, 1_795_680_000_000)
"""For the document."""

PAGES = 16
"""Reads of a rule whose crossings are kept for its clients; a slower client reads for itself."""


OWN = 100
"""The most crossings of a read for one client: 1,000 clients that do not read have them in memory, with their ids."""

LONGEST = 7_800
"""The longest percent-encoded position: a header or the line of a request has 8,190 bytes."""


class CrossingPage(NamedTuple):
    """Crossings, and the position behind them."""

    events: Sequence[ServerSentEvent]
    end: str

    @property
    def full(self) -> bool:
        """Whether further crossings may follow at once."""
        return len(self.events) == MOST or sum(len(event.id) for event in self.events) >= MOST_ID_BYTES


Ask = Callable[[str, int], Awaitable[CrossingPage]]
"""A position, and the most crossings → the crossings behind the position. Raises a `StreamStateError`."""


class CrossingFeed:
    """The crossings of a rule behind the position `end`, while `clients` watch. For one event loop."""

    def __init__(self, ask: Ask, end: str, poll_s: float) -> None:
        self.clients = 0
        self._ask = ask
        self._end = end
        self._poll_s = poll_s
        self._pages: dict[str, CrossingPage] = {}
        self._refused = False
        self._moved = asyncio.Event()

    async def following(self, position: str) -> CrossingPage:
        """The crossings behind `position`, once there are any. Raises the `Problem` of a refused position or rule."""
        while True:
            moved = self._moved
            if position != self._end or self._refused:
                page = self._pages.get(position) or await self._read(position, OWN)
                if page.events:
                    return page
            await moved.wait()

    async def keep_polling(self) -> None:
        """Read new crossings until no client is left."""
        while self.clients:
            page = await self._polled()
            if page.events:
                self._pages[self._end] = page
                self._end = page.end
                if len(self._pages) > PAGES:
                    del self._pages[next(iter(self._pages))]
            if page.events or self._refused:
                moved, self._moved = self._moved, asyncio.Event()
                moved.set()
            if not page.full:
                await asyncio.sleep(self._poll_s)

    async def _polled(self) -> CrossingPage:
        """The crossings behind the end; none, and `_refused`, when each client's read raises a `Problem`."""
        try:
            page = await self._read(self._end, MOST)
        except Problem:
            page, self._refused = CrossingPage((), self._end), True
        else:
            self._refused = False
        return page

    async def _read(self, position: str, most: int) -> CrossingPage:
        while True:
            try:
                return await self._ask(position, most)
            except StreamStateError as error:
                if is_final(error):
                    raise
            await asyncio.sleep(self._poll_s)


class Follower:
    """The crossings of a feed behind those of `page`, a crossing at a time."""

    def __init__(self, feed: CrossingFeed, page: CrossingPage) -> None:
        self._feed = feed
        self._events, self._position = deque(page.events), page.end

    async def after(self, _seen: ServerSentEvent | None) -> ServerSentEvent:
        """The next crossing."""
        if not self._events:
            page = await self._feed.following(self._position)
            self._events, self._position = deque(page.events), page.end
        return self._events.popleft()


class Crossings:
    """The feeds of all rules that clients watch.

    poll_s: the pause between two polls of a rule. timeout_s: of a poll.
    """

    def __init__(self, owners: Owners, router: Router, poll_s: float, timeout_s: float) -> None:
        self._owners = owners
        self._router = router
        self._poll_s = poll_s
        self._timeout_s = timeout_s
        self._feeds: dict[str, CrossingFeed] = {}
        self._polling: dict[str, asyncio.Task[None]] = {}

    async def begin(self, path: str, last_id: str, deadline: Deadline) -> AbstractContextManager[Follower]:
        """The crossings of the rule at `path` behind the event `last_id`; without an id, from now on.

        Raises a `Problem`.
        """
        try:
            return self._watching(path, await self._ask(path, last_id or END, OWN, deadline))
        except Problem as problem:
            if problem.status == 400:
                detail = f"{LAST_EVENT_ID}: this is no id of an event of this stream; connect without {LAST_EVENT_ID}"
                raise bad_parameter(detail) from problem
            raise

    @contextmanager
    def _watching(self, path: str, page: CrossingPage) -> Iterator[Follower]:
        feed = self._feeds.setdefault(path, CrossingFeed(partial(self._poll, path), page.end, self._poll_s))
        feed.clients += 1
        if feed.clients == 1:
            self._polling[path] = asyncio.create_task(feed.keep_polling())
        try:
            yield Follower(feed, page)
        finally:
            feed.clients -= 1
            if not feed.clients:
                del self._feeds[path]
                self._polling.pop(path).cancel()

    async def _poll(self, path: str, position: str, most: int) -> CrossingPage:
        return await self._ask(path, position, most, Deadline(time.monotonic() + self._timeout_s))

    async def _ask(self, path: str, position: str, most: int, deadline: Deadline) -> CrossingPage:
        _require_fitting(path, position)
        query = [("after", position), ("limit", str(most))]
        found = msgspec.json.decode(await self._router.body(self._owners.now, path, query, deadline))
        _require_fitting(path, found["end"])
        return CrossingPage([event(crossing) for crossing in found["crossings"]], found["end"])


def _require_fitting(path: str, position: str) -> None:
    """Raise a 404 `Problem` for a position that no client or instance accepts."""
    if len(quote_plus(position)) > LONGEST:
        topic = rules_topic(path.split("/")[-2])
        raise Problem(
            404, "not-found", f"the id of an event has too many partitions for a header; read the topic {topic}"
        )


def rule_path(directory: Directory, rule: str, profile: str) -> str:
    """The path of the view of a rule; of any profile if `profile` is empty.

    Raises a 404 `Problem` for an unknown rule, and for a rule of several profiles.
    """
    paths = [*dict.fromkeys(view.path for _, view in directory.views if view.path.startswith(RULES))]
    found = [path for path in paths if (path == f"{RULES}{profile}/{rule}" if profile else path.endswith(f"/{rule}"))]
    if len(found) == 1:
        return found[0]
    if found:
        streams = " or ".join(f"{path}/stream" for path in found)
        raise Problem(404, "not-found", f"several profiles have a rule of this name: ask for {streams}")
    known = Problem(404, "not-found", f"there is no such rule; the rules are {', '.join(paths)}")
    raise directory.absent(known if paths else not_found())


def event(crossing: dict[str, Any]) -> ServerSentEvent:
    place = crossing.pop("id")
    return ServerSentEvent(CROSSING, place, msgspec.json.encode(crossing))
