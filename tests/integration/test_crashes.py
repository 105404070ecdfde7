"""A short selection of `make faults`: every key equals a recount, whatever was killed or lost on the way.

Published totals go up, until an operator corrects them.
"""

import itertools
import json
from collections import defaultdict

from typer.testing import CliRunner

from services.clicks.model import CLICKS_PER_REGION, USER_CLICKS, USER_REGIONS
from services.notifications.model import OPEN, TICK
from services.topics.settings import EXAMPLE
from streamstate.cli.main import app
from tests.faults.harm import kill_losing_a_second
from tests.integration.driving import SETTLED_S, Driving
from tests.waiting import until

CUSTOMERS, USERS = 60, 25
REGIONS = ("africa", "americas", "asia", "europe")
EVENTS, CLICKS = 5_000, 1_000
clock = itertools.count(1_750_000_000_000, 731)


def produce(driving: Driving, topic: str, key: bytes, value: bytes | None) -> None:
    driving.out.produce(topic, value, key, timestamp=next(clock))


def user(number: int) -> bytes:
    return f"user-{number}".encode()


def change_states(driving: Driving) -> None:
    """New regions and states, all there before anything else comes, so that any batches give the same."""
    for number in range(1, USERS):
        region = driving.draw.choice((*REGIONS, None))
        state = driving.draw.choice(("Open", "Close", "Closed"))
        produce(driving, USER_REGIONS, user(number), None if region is None else region.encode())
        produce(driving, OPEN, user(number), state.encode())
    driving.out.flush()
    driving.settle()


def feed(driving: Driving) -> None:
    """Plays; clicks, ticks and bookings, some of them of users without a region or state."""
    driving.feed(itertools.islice(driving.events, EVENTS))
    for _ in range(CLICKS):
        produce(driving, USER_CLICKS, user(driving.draw.randint(1, USERS)), b"%d" % driving.draw.randint(0, 9))
        produce(driving, TICK, user(driving.draw.randint(1, USERS)), b"")
        booking = json.dumps({"amount": driving.draw.randint(-50, 500)}).encode()
        produce(driving, EXAMPLE.topic, driving.draw.randint(1, CUSTOMERS).to_bytes(8, "big"), booking)
        driving.out.poll(0)
    driving.out.flush()


def kill(driving: Driving, what: str) -> None:
    """kill -9 a part of the streams or Redis, and start again what died; Redis loses a part of its last second."""
    if what == "Redis":
        kill_losing_a_second(driving.cluster.redis, driving.draw)
    else:
        driving.kill(what)
    if what == "driver":
        until(lambda: not driving.cluster.streams.alive, 30, "the process to end without its driver")
    driving.cluster.revive()


def published(driving: Driving) -> dict[str, list[int]]:
    """All totals that were published, by region, in their order, since the last removal."""
    totals: defaultdict[str, list[int]] = defaultdict(list)
    for message in driving.read(CLICKS_PER_REGION):
        region = (message.key() or b"").decode()
        if (value := message.value()) is None:
            totals.pop(region, None)
        else:
            totals[region].append(int(value))
    return dict(totals)


def last(driving: Driving) -> dict[str, int]:
    return {region: totals[-1] for region, totals in published(driving).items()}


def test_every_key_equals_a_recount_after_kills(driving: Driving) -> None:
    """Each kill comes while the folding is under way."""
    change_states(driving)
    for what in ("worker", "Redis", "driver"):
        feed(driving)
        left = EVENTS + driving.draw.randrange(1, EVENTS)
        until(lambda left=left: driving.cluster.behind() <= left, 60, "the folding to be under way")  # type: ignore[misc]
        kill(driving, what)
    driving.settle()
    assert driving.differences() == []
    until(lambda: last(driving) == driving.regions(), SETTLED_S, "the totals")
    assert all(totals == sorted(totals) for totals in published(driving).values())


def test_totals_that_are_too_high_are_corrected(driving: Driving) -> None:
    """Also that of a region that the state does not have; the stream goes on publishing."""
    totals = driving.regions()
    region, total = min(totals.items())
    driving.out.produce(CLICKS_PER_REGION, b"%d" % 2**50, region)
    driving.out.produce(CLICKS_PER_REGION, b"7", "nowhere")
    driving.out.flush()
    arguments = ["reset", "clicks", "--totals", "--yes", "--json"]
    result = CliRunner().invoke(app, arguments, env=driving.environment())
    assert result.exit_code == 0, result.output
    corrected = {each["field"]: (each["published"], each["total"]) for each in json.loads(result.stdout)}
    assert corrected == {"nowhere": (7, None), region: (2**50, total)}
    until(lambda: last(driving) == totals, 30, "the totals of the state")
    produce(driving, USER_CLICKS, b"a user", b"5")
    driving.out.flush()
    until(lambda: sum(last(driving).values()) == sum(totals.values()) + 5, SETTLED_S, "the next total")
