"""Two instances of metrics and one of names, really served, over stores in memory; the gateway before them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from werkzeug.test import Client

from devkit.servers.child_process import free_port
from services.events import LISTENING_EVENTS
from services.gateway.api import build as build_gateway
from services.gateway.routing.owners import Owners
from services.gateway.routing.router import Router
from services.gateway.routing.upstream import Upstream
from services.gateway.settings import AccessSettings, GatewaySettings
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from services.recommendations.api import Pool
from services.recommendations.api import build as build_recommendations
from services.recommendations.graph.live import Live
from services.recommendations.model import app as recommendations
from services.recommendations.settings import PoolSettings, WindowSettings
from streamstate.app import App
from streamstate.keys import LONG, partition_of
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin
from streamstate.testing import Driver, FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from streamstate.web.server.asgi import Asgi
from tests.deletions import InMemory
from tests.raw import Play, feed_name, feed_plays
from tests.serving import Loop, Serve, Served

PARTITIONS = 4
RECOMMENDATIONS = recommendations(load(WindowSettings))
USER, FAN, STRANGER = 42, 43, 4711
MOST = 16
"""Calls to one instance at a time."""


def _settings(**values: Any) -> ApiSettings:
    return ApiSettings(**values)


@dataclass
class Services:
    """The services and what the gateway sees of them; `at` are the served instances by service."""

    serve: Serve
    loop: Loop
    stores: dict[str, MemoryStore] = field(default_factory=dict)
    at: dict[str, list[Served]] = field(default_factory=dict)
    readers: dict[str, list[MemoryReader]] = field(default_factory=dict)
    graphs: list[Live] = field(default_factory=list)
    freshness: list[Freshness] = field(default_factory=list)
    topics: FixedTopics = field(default_factory=lambda: FixedTopics({}))
    deletions: InMemory | None = None
    http: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of instances and gateway."""
    access: AccessSettings = field(default_factory=lambda: load(AccessSettings))

    def start(self, app: App, instances: int) -> None:
        """Serve `app`; its instances own the partitions in turn."""
        self._start(app, [f"127.0.0.1:{free_port()}" for _ in range(instances)])

    def _start(self, app: App, addresses: Sequence[str]) -> None:
        store = self.stores[app.name] = MemoryStore()
        self.topics.counts |= dict.fromkeys(app.topics, PARTITIONS)
        self.at[app.name] = []
        for address in addresses:
            freshness = Freshness(self.topics, app.topics)
            self.freshness.append(freshness)
            settings = _settings(advertise=address, **self.http)
            reader = MemoryReader(store)
            self.readers.setdefault(app.name, []).append(reader)
            api = build(app, settings, reader, freshness, self.deletions)
            self.at[app.name].append(self.serve(address, api))
        self.share_out(app.name)

    def replace(self, app: App) -> None:
        """Serve `app`, with an empty state, at the addresses of the app of the same name."""
        for served in self.at[app.name]:
            served.stop()
        self._start(app, [served.address for served in self.at[app.name]])

    def start_recommendations(self, instances: int) -> None:
        """Serve the recommender; each instance has a graph of its own, as of the last `play`."""
        self.stores["recommendations"] = MemoryStore()
        self.at["recommendations"] = []
        for _ in range(instances):
            self.add_recommender()

    def add_recommender(self) -> Served:
        """One more instance of the recommender; its graph is loaded by the next `play`."""
        store = self.stores["recommendations"]
        live = Live(store, 1_000)
        settings = _settings(advertise=f"127.0.0.1:{free_port()}", **self.http)
        self.graphs.append(live)
        freshness = Freshness(self.topics, RECOMMENDATIONS.topics)
        pool = Pool(load(PoolSettings))
        parts = (MemoryReader(store), freshness, live, pool)
        api = build_recommendations(RECOMMENDATIONS, settings, *parts, self.deletions)
        served = self.serve(settings.advertise, api)
        self.at["recommendations"].append(served)
        return served

    def share_out(self, service: str) -> None:
        for partition in range(PARTITIONS):
            self.own(service, partition, partition % len(self.at[service]))

    def own(self, service: str, partition: int, instance: int) -> str:
        """Let the instance of this number own `partition`; returns its address."""
        address = self.at[service][instance].address
        origins = {topic: Origin(topic, count) for topic, count in self.topics.counts.items()}
        self.stores[service].claim(partition, address, {}, origins)
        return address

    def play(self, plays: list[Play]) -> None:
        for app in (METRICS, NAMES, RECOMMENDATIONS):
            if app.name in self.stores:
                feed_plays(Driver(app, self.stores[app.name], PARTITIONS), plays)
                self.share_out(app.name)
        for live in self.graphs:
            while live.step():
                pass

    def name(self, kind: str, key: int, name: str) -> None:
        feed_name(Driver(NAMES, self.stores["names"], PARTITIONS), kind, key, name)
        self.share_out("names")

    def owner(self, user: int, service: str = "metrics") -> Served:
        partition = partition_of(LONG.encode(user), PARTITIONS)
        address = self.stores[service].read({partition: []})[partition].owner
        return next(served for served in self.at[service] if served.address == address)

    def upstream(self) -> Upstream:
        return Upstream(self.addresses(), self.loop.instances(), MOST)

    def owners(self) -> Owners:
        """They know all that is served now."""
        owners = Owners(self.upstream(), ttl_s=3_600)
        self.loop.run(owners.refresh())
        return owners

    def addresses(self) -> dict[str, list[str]]:
        return {service: [one.address for one in served] for service, served in self.at.items()}

    def router(self) -> Router:
        return Router(self.upstream())

    def app(self, **settings: Any) -> Asgi:
        app = self.built(**settings)
        self.loop.run(app.start())
        return app

    def built(self, **settings: Any) -> Asgi:
        """The gateway, not started."""
        given = {"owners_ttl_s": 60, **self.http, **settings}
        return build_gateway(GatewaySettings(**given), self.addresses(), self.access)

    def gateway(self, **settings: Any) -> Client:
        return Client(self.loop.wsgi(self.app(**settings)))


def started(found: Services) -> Services:
    """`found` with its services and their data."""
    found.start(METRICS, 2)
    found.start(NAMES, 1)
    found.start_recommendations(2)
    found.name("artists", 1, "Prince")
    found.name("albums", 2, "1999")
    found.play([(USER, 1, 2, 3, 1_000), (USER, 1, 2, 4, 3_000), (USER, 9, 8, 3, 2_000)])
    found.play([(FAN, 1, 2, 3, 1_000), (FAN, 5, 6, 7, 1_000)])
    assert found.topics.partitions(LISTENING_EVENTS) == PARTITIONS
    return found
