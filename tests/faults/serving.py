"""What answers reads, without streams: APIs over a real Redis, and a gateway to two owners behind proxies."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from devkit.events import sample_events
from devkit.events.records import Event
from devkit.servers.child_process import LOCALHOST, Child, free_port
from devkit.servers.redis import Redis
from services.events import LISTENING_EVENTS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from services.recommendations.model import app
from services.recommendations.settings import WindowSettings
from streamstate.app import App
from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.testing import Driver
from tests.faults.fleet import KNOWN
from tests.faults.harm import Proxy
from tests.faults.load import known
from tests.serving import running

SEED, EVENTS, USERS = 1, 20_000, 300
PARTITIONS = 8
WINDOW = 1_000
NOWHERE = f"{LOCALHOST}:1"
"""There is no Kafka: reads do not need it."""


class Folded:
    """The state of an app, folded by this process."""

    def __init__(self, redis: Redis, app: App) -> None:
        self.store = RedisStore(connect(redis.url, 10.0), app.name)
        self._driver = Driver(app, self.store, PARTITIONS)
        self._ends: Counter[int] = Counter()

    def feed(self, events: Iterable[Event]) -> None:
        """Fold further `events`."""
        batches: defaultdict[int, list[RawRecord]] = defaultdict(list)
        for key, value in events:
            partition = partition_of(key, PARTITIONS)
            batches[partition].append((self._ends[partition], 1_000, key, value))
            self._ends[partition] += 1
        for partition, batch in batches.items():
            self._driver.feed(partition, {LISTENING_EVENTS: batch})


class Serving:
    """Two owners of metrics behind `proxies`, names, recommendations and the gateway at `url`.

    plays: the events of each user that were folded.
    """

    topic = LISTENING_EVENTS
    bootstrap = NOWHERE

    def __init__(self, home: Path) -> None:
        self._home = home
        self._closing = ExitStack()
        self.redis = Redis(home / "redis", free_port())
        self.redis.start()
        self._closing.callback(self.redis.stop)
        catalogue = sample_events.Catalogue.make(SEED, artists=60)
        clock = sample_events.backlog(EVENTS, 86_400_000, lambda: 1_750_000_000_000)
        events = list(islice(sample_events.events(catalogue, SEED, USERS, clock, broken=0), EVENTS))
        self.plays = Counter(LONG.decode(key) for key, _ in events)
        metrics, self.graph = Folded(self.redis, METRICS), Folded(self.redis, app(WindowSettings(window=WINDOW)))
        metrics.feed(events)
        self.graph.feed(events)
        names = Folded(self.redis, NAMES)

        self.owners = [f"{LOCALHOST}:{free_port()}" for _ in range(2)]
        self.proxies = [self._closing.enter_context(Proxy(int(at.rpartition(":")[2]))) for at in self.owners]
        self.advertised = [f"{LOCALHOST}:{proxy.port}" for proxy in self.proxies]
        self.names, self.recommendations = (f"{LOCALHOST}:{free_port()}" for _ in range(2))
        for partition in range(PARTITIONS):
            metrics.store.claim(partition, self.advertised[partition % 2], {})
            names.store.claim(partition, self.names, {})
        self.instances = {"metrics": self.advertised, "names": [self.names], "recommendations": [self.recommendations]}

    def start(self) -> None:
        """Start the APIs and the gateway, and wait until all are ready."""
        reading = {"KAFKA": NOWHERE, "REDIS": self.redis.url}
        self.apis = [
            self.serve(f"services.{service}", at, **reading, ADVERTISE=advertised, **settings)
            for service, at, advertised, settings in (
                ("metrics", self.owners[0], self.advertised[0], {}),
                ("metrics", self.owners[1], self.advertised[1], {}),
                ("names", self.names, self.names, {}),
                ("recommendations", self.recommendations, self.recommendations, {"WINDOW": str(WINDOW)}),
            )
        ]
        addresses = {service: ",".join(instances) for service, instances in self.instances.items()}
        gateway = f"{LOCALHOST}:{free_port()}"
        self.serve("services.gateway", gateway, INSTANCES=json.dumps(addresses))
        self.url = f"http://{gateway}"
        self.known = known(self.url, range(1, KNOWN + 1))

    def serve(self, package: str, address: str, **settings: str) -> Child:
        """An API or gateway at `address`, ready."""
        return self._closing.enter_context(running(package, address, self._home, settings))

    def owner(self, user: int) -> int:
        """Which of the two has the partition of `user`."""
        return partition_of(LONG.encode(user), PARTITIONS) % 2

    def catch_up(self) -> float:
        return 0.0

    def differences(self) -> list[str]:
        """The users whose plays are not as many as were folded."""
        told: dict[int, Any] = known(self.url, self.known)
        return [f"user {user}" for user, profile in told.items() if profile["eventCount"] != self.plays[user]]

    def close(self) -> None:
        self._closing.close()
