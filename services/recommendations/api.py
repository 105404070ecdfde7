"""The API deployment of recommendations: answers from the graph in memory, any instance for any user."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from msgspec import UNSET

from services.events import KINDS
from services.recommendations.answers import (
    ALL_KINDS,
    ALL_RECOMMENDATIONS,
    RECOMMENDATIONS,
    SIMILAR,
    VIAS,
    AllParameters,
    AllRecommendations,
    Options,
    Parameters,
    Recommendations,
    RecommendedItem,
    Similar,
    SimilarItem,
    Via,
    entries,
    path,
    similar_path,
    similar_view,
    view,
)
from services.recommendations.control import exclusions
from services.recommendations.control.exclusions import Controls, Rules
from services.recommendations.graph import metrics as graph_metrics
from services.recommendations.graph.bipartite import Graph
from services.recommendations.graph.live import Live
from services.recommendations.kept import KeptLists, Walked
from services.recommendations.queries import Query
from services.recommendations.settings import ListSettings, PoolSettings, WindowSettings
from services.recommendations.walks.salsa import Recommendation
from streamstate import bootstrap
from streamstate.app import App
from streamstate.deployment.resources import cores
from streamstate.erasure.topic import DeletionTopic
from streamstate.keys import LONG
from streamstate.settings import ApiSettings, load
from streamstate.state.store import AsyncReads, Positions
from streamstate.web.api import skeleton
from streamstate.web.consistency import Demands
from streamstate.web.freshness import Freshness
from streamstate.web.http import parameters
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import overloaded
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.parameters import of_struct
from streamstate.web.server.responses import Answer
from streamstate.web.state import AppState
from streamstate.web.user_data import UserData

T = TypeVar("T")


class Pool:
    """Runs functions that take milliseconds of CPU without the interpreter's lock. For a single event loop."""

    def __init__(self, settings: PoolSettings) -> None:
        threads = settings.walkers or cores()
        self._most = threads + settings.walks_waiting
        self._threads = ThreadPoolExecutor(threads, "walker")
        self._taken = 0

    async def run(self, walk: Callable[[], T]) -> T:
        """The result of `walk`, called in a thread; raises a 503 `Problem` at once when the queue is full."""
        if self._taken >= self._most:
            raise overloaded(wanted="walks")
        self._taken += 1
        walking = asyncio.get_running_loop().run_in_executor(self._threads, walk)
        # A cancelled walk occupies its thread until the end.
        walking.add_done_callback(self._leave)
        return await asyncio.shield(walking)

    async def close(self) -> None:
        """Refuse further walks, and drop waiting walks."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _leave(self, walking: "asyncio.Future[T]") -> None:
        self._taken -= 1
        if not walking.cancelled():
            # Where the caller is gone, nobody else takes its error.
            walking.exception()


def create() -> Asgi:
    """The application with the settings of the process. Raises `Misconfigured` for an invalid setting."""
    settings = bootstrap.configure(ApiSettings)
    app = bootstrap.app("services.recommendations", settings)
    window, pool = load(WindowSettings).window, Pool(load(PoolSettings))
    store = bootstrap.store(settings.redis, settings.redis_timeout_s, app.name, settings.redis_login)
    live = Live(store, window, app.topics[0])
    topics = bootstrap.topics(settings.kafka, settings.security)
    freshness, deletions = Freshness(topics, app.topics), bootstrap.deletions(settings, topics)
    reads, lists = bootstrap.reads(settings, app), load(ListSettings)
    return build(app, settings, reads, freshness, live, pool, deletions, lists, exclusions.rules(app, store))


def build(
    app: App,
    settings: ApiSettings,
    reads: AsyncReads,
    freshness: Freshness,
    live: Live,
    pool: Pool,
    deletions: DeletionTopic | None = None,
    lists: ListSettings | None = None,
    rules: Rules | None = None,
) -> Asgi:
    """The application over these parts; background threads start with the server."""
    views = entries(live.topic)
    state = AppState(app, reads, freshness, settings.truncated_topics, bootstrap.commands(app))

    async def ready() -> None:
        live.graph()
        if rules:
            rules.now()

    routes, telemetry = skeleton(app, settings, state, freshness, views, ready)
    telemetry.further(partial(graph_metrics.collect, live, state))
    UserData(app, state, settings.advertise, deletions, live.played).add_to(routes)
    lists = lists or ListSettings.model_construct(stable_s=0)
    controls = Controls(app, state, rules, lists.shown_age_s)
    answers = _Answers(settings, freshness, live, pool, controls, lists.stable_s)
    query, one_kind = of_struct(Parameters), Answer.of_state(RECOMMENDATIONS)
    for kind in KINDS:
        summary = f"{kind.capitalize()} that a user may like and did not play lately"
        routes.add(path(kind), view(kind), partial(answers.recommend, kind), summary, one_kind, LONG, query)
    query, one_kind = of_struct(Options), Answer.of_state(SIMILAR)
    for kind in KINDS:
        at, summary = similar_path(kind), f"{kind.capitalize()} played by listeners of one of the {kind}"
        routes.add(at, similar_view(kind), partial(answers.similar, kind), summary, one_kind, LONG, query)
    summary = "Artists, albums and tracks that a user may like and did not play lately"
    query = of_struct(AllParameters)
    routes.add(ALL_KINDS, "recommendations", answers.all, summary, Answer.of_state(ALL_RECOMMENDATIONS), LONG, query)
    starting = [freshness.start, live.start, *([rules.start] if rules else [])]
    return Asgi(routes, settings, telemetry, starting=starting, ending=[pool.close, reads.close])


class _Answers:
    """The answers of the routes."""

    def __init__(
        self, settings: ApiSettings, freshness: Freshness, live: Live, pool: Pool, controls: Controls, stable_s: int
    ) -> None:
        self._settings = settings
        self._freshness = freshness
        self._live = live
        self._pool = pool
        self._controls = controls
        self._stable_s = stable_s
        self._kept = KeptLists(live.held)
        self._demands = Demands(freshness, self._positions, settings)

    async def recommend(self, kind: str, request: Request, key: str) -> Response:
        """The recommendations of a kind."""
        asked = parameters.parse(Parameters, request.query)
        asked.check()
        user = LONG.parse(key)
        left_out = await self._controls.of(user)
        query = Query(kind, asked, user, self._stable_s, left_out, of_item=False, explain=asked.explain)
        (walked,) = lists = await self._lists([query], request.deadline)
        return self._answer(_recommended(user, walked.found), lists)

    async def similar(self, kind: str, request: Request, key: str) -> Response:
        """The items of a kind that are similar to an item."""
        asked = parameters.parse(Options, request.query)
        asked.check()
        left_out = await self._controls.of(None)
        query = Query(kind, asked, LONG.parse(key), self._stable_s, left_out, of_item=True)
        (walked,) = lists = await self._lists([query], request.deadline)
        found = walked.found
        items = [SimilarItem(*scored) for scored in found.items]
        return self._answer(Similar(query.key, items, found.walks, found.partial), lists)

    async def all(self, request: Request, key: str) -> Response:
        """The same of all kinds, with the defaults of all other parameters."""
        explain, user = parameters.parse(AllParameters, request.query).explain, LONG.parse(key)
        how = Parameters(), user, self._stable_s, await self._controls.of(user)
        queries = [Query(kind, *how, of_item=False, explain=explain) for kind in KINDS]
        lists = await self._lists(queries, request.deadline)
        by_kind = {kind: _recommended(user, walked.found) for kind, walked in zip(KINDS, lists, strict=True)}
        return self._answer(AllRecommendations.from_kinds(user, by_kind), lists)

    async def _lists(self, queries: Sequence[Query], deadline: Deadline) -> Sequence[Walked]:
        """The list of each query. The demands of a request are met by new walks."""

        async def read() -> tuple[Graph, Mapping[int, int]]:
            positions = self._live.positions
            return self._live.graph(), positions

        graph, positions = await self._demands.read_until_met(read, lambda at: self._named(at[1]), deadline)
        if self._kept.graph is not graph:
            # The graph is built again when users are deleted, or Redis lost a part of the state.
            self._kept = KeptLists(graph)
        views, keeping = graph.views(), self._kept
        names = {query: query.name(views) for query in queries}
        lists: dict[Query, Walked] = {}
        if not deadline.demands:
            lists = {query: walked for query, name in names.items() if (walked := keeping.get(name))}
        if missing := [query for query in queries if query not in lists]:
            found = await self._pool.run(lambda: [query.walk(views, deadline) for query in missing])
            for query, result in zip(missing, found, strict=True):
                lists[query] = Walked(result, positions)
                keeping.keep(names[query], query, lists[query])
        return [lists[query] for query in queries]

    def _answer(self, answer: object, lists: Sequence[Walked]) -> Response:
        """The answer, whose position is the position of the oldest of `lists`."""
        at = {place: min(walked.positions.get(place, 0) for walked in lists) for place in lists[0].positions}
        return json(answer, self._settings.advertise, self._freshness.headers(self._named(at)))

    def _named(self, positions: Mapping[int, int]) -> Positions:
        return {(self._live.topic, partition): offset for partition, offset in positions.items()}

    async def _positions(self) -> Positions:
        return self._named(self._live.positions)


def _recommended(user: int, found: Recommendation) -> Recommendations:
    through = {item: [Via(*via) for via in vias[:VIAS]] for item, vias in found.explanations.items()}
    items = [RecommendedItem(item, score, through.get(item, UNSET)) for item, score in found.items]
    return Recommendations(user, items, found.walks, found.partial, "popular" if found.fallback else None)
