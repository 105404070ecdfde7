"""F25: an hour with 100,000 users, a user with a million events, and a fault every minute."""

import os
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle

import urllib3

from devkit.events import feed, records
from devkit.lab.load import Reads, Request, asking
from devkit.repeating import repeating
from streamstate.kafka.producer import producer
from tests.faults import soak_report
from tests.faults.conftest import Trying
from tests.faults.fleet import OTHERS, Fleet
from tests.faults.load import FIRST_MOVING, reading, writing
from tests.faults.soaking import SAMPLE_S, Harm, Samples
from tests.faults.test_processes import ONE, OTHER, THIRD, end, own, revive
from tests.integration.driving import strike
from tests.waiting import until

MINUTES = float(os.environ.get("MINUTES", "60"))
USERS = 100_000
BUSY, BUSY_EVENTS = FIRST_MOVING + USERS, 1_000_000
PAUSE_S = 30.0
READS_OF_TWO_PER_S = 20.0


def kill_a_part(fleet: Fleet, draw: random.Random) -> None:
    """kill -9 of a process of the stream of one instance."""
    stream, part = fleet.streams[ONE], draw.choice(("driver", "JVM", "worker"))
    strike(stream, part, draw)
    if part != "worker":
        revive(stream)


def kill_an_owner(fleet: Fleet, _: random.Random) -> None:
    """kill -9 of stream and API of one instance, until another has its partitions."""
    for child in fleet.processes_of(ONE):
        child.kill()
    own(fleet, OTHER)
    fleet.start(ONE)
    own(fleet, ONE, OTHER)


def rebalance(fleet: Fleet, _: random.Random) -> None:
    """A third instance comes, and goes again."""
    fleet.start(THIRD)
    own(fleet, ONE, OTHER, THIRD)
    end(fleet.processes_of(THIRD))
    own(fleet, ONE, OTHER)


def delete_a_user(fleet: Fleet, draw: random.Random) -> None:
    """Delete a playing user, until every service reports the end of the deletion."""
    path = f"{fleet.url}/v1/users/{FIRST_MOVING + draw.randrange(USERS)}"

    def taken() -> bool:
        return urllib3.request("DELETE", path, timeout=10, retries=False).status == 202

    def done() -> bool:
        receipt = urllib3.request("GET", f"{path}/deletion", timeout=10, retries=False)
        return receipt.status == 200 and bool(receipt.json()["done"])

    until(taken, "all services to take a deletion")
    until(done, "a user to be deleted")


FAULTS: tuple[Callable[[Fleet, random.Random], None], ...] = (kill_a_part, delete_a_user, kill_an_owner, rebalance)


def play_a_million(fleet: Fleet) -> None:
    """Send the events of the busy user, and wait until they are folded."""
    draw = random.Random(BUSY).randrange
    events = (records.event(BUSY, draw(60), draw(200), draw(900), 1_000 * n) for n in range(BUSY_EVENTS))
    feed.send_events(producer(fleet.bootstrap), events)
    fleet.catch_up()


def count(counts: set[int], answer: urllib3.BaseHTTPResponse) -> tuple[str, str]:
    """Keep the number of plays that a profile tells."""
    if answer.status != 200:
        return str(answer.status), ""
    counts.add(answer.json()["eventCount"])
    return "", ""


def test_f25_soak(trying: Trying, fleet: Fleet) -> None:
    """What is measured was never restarted: the gateway, an API, and the streams that no fault strikes."""
    play_a_million(fleet)
    measured = {
        "gateway": fleet.cluster.gateway,
        "API of metrics": fleet.apis[OTHER],
        "stream of metrics": fleet.streams[OTHER],
        "other streams": fleet.streams[OTHERS],
        "Redis": fleet.cluster.redis,
    }
    what = f"{MINUTES:.0f} minutes: kills, owners that come and go, deleted users, harmful clients"
    harm, told, counts = Harm(fleet.url), Reads(), set[int]()
    asked = {"another user": min(fleet.known), "the user with a million events": BUSY}

    def request(number: int) -> Request:
        user = [*asked.values()][number % len(asked)]
        return Request(user, f"/v1/users/{user}/metrics", partial(count, counts if user == BUSY else set()))

    with trying("F25", what) as run:
        samples, until = Samples(fleet.states, measured, run.reads), time.monotonic() + 60 * MINUTES
        with (
            writing(fleet.bootstrap, fleet.topic, run.draw, USERS),
            reading(fleet.url, fleet.known, run.reads),
            repeating(harm.go_on, 1.0),
            asking(fleet.url, request, told, READS_OF_TWO_PER_S, readers=1),
            repeating(samples.take, SAMPLE_S),
        ):
            for fault in cycle(FAULTS):
                if time.monotonic() > until:
                    break
                time.sleep(PAUSE_S)
                fault(fleet, run.draw)
                run.recover(fleet)
        harm.close()
        fleet.catch_up()
        run.recount(fleet)
        by_user = {
            name: Reads([read for read in told.all if read.user == user and not read.failure])
            for name, user in asked.items()
        }
        soak_report.write(MINUTES, samples, by_user, harm)
        run.figures.append("see reliability.md")
    assert counts == {BUSY_EVENTS}
