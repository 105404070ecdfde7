"""A thousand watchers under load: how late they are, what they cost others, whether an owner's kill loses anything."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import urllib3

from devkit.bench import cpu, wrk
from devkit.bench.data import SEED, USERS, Data
from devkit.bench.event_latency import WARM_S
from devkit.bench.ingest import caught_up
from devkit.bench.read_load import FEW, GATEWAY, STREAMS, Read
from devkit.bench.steady import steady
from devkit.bench.watchers.commits import behind, commits, has_reached, plays
from devkit.bench.watchers.figures import WATCHERS, Watching
from devkit.bench.watchers.listeners import Heard, Listeners, listening
from devkit.bench.wrk import Clients
from devkit.child_process import Child, free_port
from devkit.demo import CACHE, say
from devkit.local_cluster import LocalCluster, Plan, answers
from services.events import LISTENING_EVENTS
from services.metrics.model import APP
from streamstate import bootstrap

SERVICES, INSTANCES = ("metrics", "names", "recommendations"), {APP.name: 2}
PAIRS, PAIR_S, READS_PER_S = 3, 40, 200
KILLED_S, REST_S = 15, 5
HEARD_S = 30
"""What watchers have not heard so long after all was committed is lost."""

CAUGHT_UP_S = 1_200


def measure(home: Path, data: Data) -> Watching:
    """In servers of its own, with a state made of `data`; the stream of metrics runs alone, as in its deployment."""
    cluster = LocalCluster(Plan(home, CACHE, free_port(), free_port(), free_port(), INSTANCES, SERVICES), say)
    try:
        cluster.start_servers()
        say("watchers: sending the events")
        data.send(cluster.kafka.bootstrap)
        cluster.start_services()
        say("watchers: folding the events")
        cluster.streams.wait_until(lambda: caught_up(cluster) and cluster.ready(), CAUGHT_UP_S)
        cluster.streams.stop()
        with cluster.of_services([APP.name]) as streams:
            return WatcherBenchmark(cluster, streams, data, home).measure()
    finally:
        cluster.stop()


class WatcherBenchmark:
    """Measures over `cluster`, whose services have folded all, while `streams` fold what comes."""

    def __init__(self, cluster: LocalCluster, streams: Child, data: Data, home: Path) -> None:
        self._cluster = cluster
        self._streams = streams
        self._data = data
        self._topics = bootstrap.topics(cluster.settings.kafka, cluster.settings.security)
        # An owner that is killed has another process later.
        others = {child.name: child.pid for child in (*cluster.apis, cluster.gateway)}
        self._trees = {STREAMS: streams.pid, "Redis": cluster.redis.pid, **others}
        read = Read(GATEWAY, cluster.url.removeprefix("http://"), "/v1/users/{user}/metrics", self._trees)
        self._address, self._paths = read.address, read.paths(home, data.users())
        users = np.random.default_rng(SEED).choice(USERS, WATCHERS, replace=False) + 1
        self._users: list[int] = users.tolist()
        self._seen = Watching()

    def measure(self) -> Watching:
        """In pairs without watchers and with them, and at last with the kill of an owner."""
        with ExitStack() as load:
            load.enter_context(steady(self._cluster.kafka.bootstrap, self._data))
            say(f"watchers: warming up for {WARM_S} s")
            self._p99_ms(WARM_S)
            for _ in range(PAIRS - 1):
                with self._paired():
                    pass
            with self._paired() as listeners, self._late(listeners, self._seen.after_kill_ms):
                self._kill()
                load.close()
                self._seen.differing = self._settled(listeners)
        return self._seen

    @contextmanager
    def _paired(self) -> Iterator[Listeners]:
        """Reads without watchers, and then with them; these watch on while the body runs."""
        seen, gateway = self._seen, self._cluster.gateway.pid
        alone, seen.alone_cores = self._reads()
        seen.alone_ms.append(alone)
        with listening(self._cluster.url, self._users) as listeners:
            seen.memory.append(cpu.resident(gateway))
            with self._late(listeners, seen.behind_ms):
                before = listeners.cpu_s
                beside, cores = self._reads()
                clients = (listeners.cpu_s - before) / PAIR_S
            seen.beside_ms.append(beside)
            seen.beside_cores = {"watchers": clients, **cores}
            say(f"p99 of reads without watchers {alone:.1f} ms, with them {beside:.1f} ms")
            yield listeners
            seen.memory.append(cpu.resident(gateway))
        seen.ended += sum(heard.ended for heard in listeners.by_user.values())

    def _reads(self) -> tuple[float, Mapping[str, float]]:
        """The p99 of reads in milliseconds, and the cores that each process takes meanwhile."""
        meter = cpu.Meter(self._trees)
        p99_ms = self._p99_ms(PAIR_S)
        usage = meter.read()
        return p99_ms, {name: usage.cores(name) for name in self._trees}

    def _p99_ms(self, seconds: int) -> float:
        return wrk.run(self._address, self._paths, Clients(FEW, seconds, READS_PER_S)).p99_ms

    def _kill(self) -> None:
        address = self._cluster.addresses[APP.name][-1]
        owner = next(child for child in self._cluster.apis if child.name == f"{APP.name}-1")
        say(f"watchers: {owner.name} is killed")
        owner.kill()
        time.sleep(KILLED_S)
        owner.start()
        owner.wait_until(lambda: answers(f"http://{address}/readyz"), timeout=60)

    @contextmanager
    def _late(self, listeners: Listeners, late_ms: list[float]) -> Iterator[None]:
        """How late watchers hear of what is sent while the body runs is added to `late_ms`."""
        with commits(self._cluster.redis.url, APP.name, len(self._ends())) as reached:
            starts = self._ends()
            yield
            ends = self._ends()
            reaching = partial(has_reached, reached, ends)
            self._streams.wait_until(reaching, CAUGHT_UP_S)
            time.sleep(REST_S)
        sent = plays(self._cluster.kafka.bootstrap, starts, self._users)
        late_ms += (
            1000 * behind(offset, reached[partition], listeners.by_user[user].events)
            for user, places in sent.items()
            for partition, offset in places
            if offset < ends[partition]
        )

    def _settled(self, listeners: Listeners) -> int:
        """How many watchers' last events are not the read, when nothing is sent any more."""
        self._streams.wait_until(lambda: caught_up(self._cluster, APP.name), CAUGHT_UP_S)
        end = time.monotonic() + HEARD_S
        while (differing := self._differing(listeners.by_user)) and time.monotonic() < end:
            time.sleep(1)
        return differing

    def _ends(self) -> Mapping[int, int]:
        """Where the topic ends now, by partition."""
        count = self._topics.partitions(LISTENING_EVENTS)
        ends = self._topics.ends((LISTENING_EVENTS, partition) for partition in range(count))
        return {partition: end for (_, partition), end in ends.items()}

    def _differing(self, heard: Mapping[int, Heard]) -> int:
        """How many of the users' last events are not what a read answers."""
        pool = urllib3.PoolManager()
        return sum(not same(each.last, self._answer(pool, user)) for user, each in heard.items())

    def _answer(self, pool: urllib3.PoolManager, user: int) -> bytes | None:
        """The profile of `user`, None for one without plays."""
        answer = pool.request("GET", f"{self._cluster.url}/v1/users/{user}?parts={APP.name}")
        return answer.data if answer.status == 200 else None


def same(event: str, answer: bytes | None) -> bool:
    """Whether an event has all that a read of some of its parts answers; None stands for an unknown user."""
    told, read = msgspec.json.decode(event), None if answer is None else msgspec.json.decode(answer)
    if told is None or read is None:
        return told is read
    return all(told.get(name) == value for name, value in read.items() if name != "warnings")
