"""Owners that are cut off, slow or overloaded, no API server, walks in a hurry: F16, F17, F18, F20 and F26."""

import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pytest
import urllib3
from kubernetes.client import DiscoveryV1EndpointPort, V1EndpointSlice

from devkit.events import records
from devkit.lab.load import Read, Reads
from devkit.lab.measures import overload
from devkit.lab.measures.reads import OWNER, PROFILE, paths
from devkit.lab.measures.reads import Read as Asked
from devkit.servers.child_process import LOCALHOST, free_port
from services.recommendations.answers import ALL_KINDS
from streamstate.web.http.demands import HEADER
from tests.faults.conftest import Trying
from tests.faults.harm import Proxy
from tests.faults.load import FIRST_MOVING
from tests.faults.serving import USERS, Folded, Serving
from tests.faults.trial import Trial
from tests.serving import Served
from tests.unit.gateway.test_endpoints import endpoint, slice_of, telling
from tests.waiting import until

DEADLINE_S = 2.0
OPEN_S = 5.0
CUT_OFF_S = 8.0
AWAY_S = 60.0
SHARE = 0.8
HURRY_MS = 100
CLIENTS, ASKED = 8, 400


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    serving = Serving(tmp_path_factory.mktemp("serving"))
    try:
        serving.start()
        yield serving
    finally:
        serving.close()


class Latency(NamedTuple):
    """The slowest read of an ill owner, the time until its last slow read, p99 of other reads before and meanwhile."""

    slowest_s: float
    slow_s: float
    usual_ms: float
    others_ms: float


def worst(latencies: Sequence[Latency]) -> str:
    """The greatest figures."""
    slowest_s, slow_s, usual_ms, others_ms = map(max, zip(*latencies, strict=True))
    slow = f"slowest {slowest_s:.2f} s, last slow read after {slow_s:.1f} s"
    return f"{slow}, other reads p99 {usual_ms:.0f}, then {others_ms:.0f} ms"


def hurt(run: Trial, serving: Serving, number: int, hurting: Sequence[tuple[Proxy, str, Any]]) -> Latency:
    """Let the owner `number` be ill for a while, then well again; hold the reads of both against their figures."""
    run.moment()
    proxy, attribute, ill = hurting[number]
    before, began = list(run.reads.all), time.monotonic()
    well = getattr(proxy, attribute)
    setattr(proxy, attribute, ill)
    time.sleep(CUT_OFF_S)
    setattr(proxy, attribute, well)
    run.times += 1
    meanwhile = run.reads.all[len(before) :]
    theirs = [read for read in meanwhile if serving.owner(read.user) == number and read.asked > began]
    others = [read for read in meanwhile if serving.owner(read.user) != number]
    slow = [read.asked - began for read in theirs if read.seconds > DEADLINE_S / 10]
    usual = Reads([read for read in before if serving.owner(read.user) != number]).ms(99)
    slowest_s, slow_s = max(read.seconds for read in theirs), max(slow, default=0.0)
    assert max(read.seconds for read in meanwhile) <= 1.1 * DEADLINE_S
    assert slow_s <= OPEN_S
    run.moment()
    return Latency(slowest_s, slow_s, usual, Reads(others).ms(99))


@pytest.mark.parametrize(
    ("fault", "what", "attribute", "ill"),
    [
        pytest.param(
            "F16", "no traffic between the gateway and one of two owners", "silent", True, marks=pytest.mark.quick
        ),
        ("F17", "one of two owners answers 5 s late", "delay_s", 5.0),
    ],
)
def test_an_owner_is_cut_off_or_late(
    trying: Trying, serving: Serving, fault: str, what: str, attribute: str, ill: Any
) -> None:
    hurting = [(proxy, attribute, ill) for proxy in serving.proxies]
    with trying(fault, f"{what} for {CUT_OFF_S:.0f} s") as run:
        with run.load(serving, writes=False):
            latencies = [hurt(run, serving, run.draw.randrange(2), hurting) for _ in run.seeds()]
        run.figures.append(worst(latencies))
        run.recount(serving)
    assert run.reads.failed == 0


def test_f18_ten_times_more_clients_than_an_owner_can_answer(trying: Trying, serving: Serving) -> None:
    what = f"{overload.CLIENTS} clients of an owner without pause, {overload.FLOOD_S} s"
    floods: list[overload.Overload] = []
    with trying("F18", what) as run:
        with run.load(serving, writes=False):
            for _ in run.seeds():
                number = run.draw.randrange(2)
                own = [user for user in range(1, USERS + 1) if serving.owner(user) == number]
                run.draw.shuffle(own)
                tree = {"owner": serving.apis[number].pid}
                asked = Asked(OWNER, serving.owners[number], paths(PROFILE, own), tree)
                flood = overload.measure(asked)
                run.times += 1
                over = time.monotonic()
                time.sleep(OPEN_S + 2)
                later = [read for read in run.reads.all if read.asked > over + OPEN_S]
                floods.append(flood)
                assert flood.answers.failures == flood.answers.lost
                assert flood.share >= SHARE
                assert not any(read.failure for read in later)
                assert max(read.seconds for read in later) < DEADLINE_S
        run.figures.append(
            f"{min(flood.share for flood in floods):.0%} of the peak a CPU second, "
            f"{sum(flood.answers.refused for flood in floods):,} refused, "
            f"{sum(flood.answers.lost for flood in floods):,} connections lost, "
            f"memory x {max(flood.growth for flood in floods):.2f}"
        )
        run.recount(serving)


def slices(serving: Serving) -> list[V1EndpointSlice]:
    """The instances as the API server tells them."""
    told = []
    for service, instances in serving.instances.items():
        for number, address in enumerate(instances):
            one = slice_of(service, endpoint(None, LOCALHOST), name=f"{service}-{number}")
            one.ports = [DiscoveryV1EndpointPort(name="http", port=int(address.rpartition(":")[2]))]
            told.append(one)
    return told


def asked_again(server: Served) -> bool:
    return bool(server.seen)


def test_f20_the_api_server_is_away(trying: Trying, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known instances serve; later instances are found after the return of the API server."""
    server, gateway, answer = f"{LOCALHOST}:{free_port()}", f"{LOCALHOST}:{free_port()}", telling(slices(serving), [])
    monkeypatch.setenv("API_SERVER", f"http://{server}")
    behind = copy(serving)
    behind.url = f"http://{gateway}"
    with trying("F20", f"Kubernetes' API server away for {AWAY_S:.0f} s") as run:
        api_server = Served(server, answer)
        services = json.dumps({service: service for service in serving.instances})
        serving.serve("tests.faults.in_cluster", gateway, SERVICES=services)
        with run.load(behind, writes=False):
            for _ in run.seeds():
                run.moment()
                api_server.stop()
                time.sleep(AWAY_S)
                api_server = Served(server, answer)
                run.times += 1
                until(partial(asked_again, api_server), "the gateway to ask again")
        api_server.stop()
        run.recount(behind)
    assert run.reads.failed <= len(run.reads.all) / 1_000


class Walks:
    """Asks the recommender for artists, with a deadline of `HURRY_MS`."""

    def __init__(self, address: str) -> None:
        self._pool = urllib3.connection_from_url(f"http://{address}", maxsize=CLIENTS, retries=False, timeout=10)

    def ask(self, user: int, **parameters: object) -> tuple[Read, Any]:
        """The read, and the answer as JSON."""
        path = f"{ALL_KINDS.replace('<key>', str(user))}/artists"
        asked = time.monotonic()
        answer = self._pool.request(
            "GET",
            path,
            fields={name: str(value) for name, value in parameters.items()},
            headers={HEADER: str(HURRY_MS)},
        )
        seconds = time.monotonic() - asked
        return Read(user, asked, seconds, "" if answer.status == 200 else str(answer.status)), answer.json()


def feed_until(stop: threading.Event, graph: Folded, draw: Random) -> None:
    """New plays of users with a single play, every second play of an artist of its own."""
    for user in itertools.count(FIRST_MOVING, 200):
        if stop.wait(0.05):
            return
        artists = {each: draw.randrange(60) if each % 2 else each for each in range(user, user + 200)}
        graph.feed(records.event(each, artist, artist, artist, 1) for each, artist in artists.items())


def test_f26_walks_in_a_hurry_over_a_graph_that_loses_plays(trying: Trying, serving: Serving) -> None:
    """New plays push the oldest out of the window of the graph while it is walked."""
    walks = Walks(serving.recommendations)
    what = f"{CLIENTS} clients request 1,000 or 10,000 walks of 100 steps within {HURRY_MS} ms, plays come and go"
    with trying("F26", what) as run:
        answers = []
        for seed in run.seeds():
            new, stop = range(FIRST_MOVING, FIRST_MOVING + 2_000), threading.Event()
            users = [run.draw.choice(run.draw.choice([range(1, USERS + 1), new])) for _ in range(ASKED)]
            asked = [run.draw.choice([1_000, 10_000]) for _ in range(ASKED)]
            with ThreadPoolExecutor(1) as feeder, ThreadPoolExecutor(CLIENTS) as clients:
                feeding = feeder.submit(feed_until, stop, serving.graph, Random(seed))
                told = list(clients.map(lambda user, count: walks.ask(user, walks=count, walkLength=100), users, asked))
                stop.set()
                feeding.result()
            answers += [answer for _, answer in told]
            run.reads.all += [read for read, _ in told]
            run.reads.wrong += [text for each, count in zip(told, asked, strict=True) for text in wrong(*each, count)]
            time.sleep(1)
            for user in run.draw.sample(range(1, USERS + 1), 20):
                first, second = (walks.ask(user, walks=1_000, seed=seed) for _ in range(2))
                assert first[0].failure or second[0].failure or first[1] == second[1]
            run.times += 1
        hurried = sum(answer.get("partial", False) for answer in answers)
        usual, slow = (run.reads.ms(percent) for percent in (50, 95))
        run.figures.append(f"{hurried} partial; p50 {usual:.0f}, p95 {slow:.0f} ms")
    assert usual <= 1.1 * HURRY_MS


def wrong(read: Read, answer: Any, asked: int) -> Iterator[str]:
    """What is wrong with an answer to `asked` walks."""
    if read.failure in ("503", "504"):
        return
    if read.failure:
        yield f"{read.failure}: {answer}"
    elif answer["walks"] != asked and not answer["partial"] and not answer["fallback"]:
        yield f"{answer['walks']} of {asked} walks, and not partial"
