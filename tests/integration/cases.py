"""Clicks, notifications and topics on the real ring: their records, and their answers held against a recount."""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from confluent_kafka import Message

from services.clicks.model import CLICKS_PER_REGION, USER_CLICKS, USER_REGIONS
from services.notifications.model import NOTIFICATION_WINDOWS, NOTIFICATIONS, OPEN, TICK
from services.topics.settings import EXAMPLE
from streamstate.kafka.admin import Topics
from streamstate.keys import Marker
from tests.integration import expected_cases as expected_answers
from tests.integration.driving import Driving
from tests.waiting import until

START_MS = 1_750_000_000_000
CUSTOMERS = 60
USERS = 25
REGIONS = ("africa", "americas", "asia", "europe")
SERVICES = ("clicks", "notifications", "topics")
ROUND = 3_000
clock = itertools.count(START_MS, 731)


def produce(driving: Driving, topic: str, key: bytes, value: bytes | None, time: int | None = None) -> None:
    driving.out.produce(topic, value, key, timestamp=next(clock) if time is None else time)


def settle(driving: Driving) -> None:
    driving.out.flush()
    until(lambda: driving.cluster.behind(*SERVICES) == 0, 120, "the three services to catch up")


def user(number: int) -> bytes:
    return f"user-{number}".encode()


def change_states(driving: Driving) -> None:
    """New regions and states, all there before anything else comes, so that any batches give the same."""
    for number in range(1, USERS):
        region = driving.draw.choice((*REGIONS, None))
        state = driving.draw.choice(("Open", "Close", "Closed"))
        produce(driving, USER_REGIONS, user(number), None if region is None else region.encode())
        produce(driving, OPEN, user(number), state.encode())
    settle(driving)


def feed(driving: Driving, count: int = ROUND) -> None:
    """Clicks, ticks and bookings, some of them of users without a region or state."""
    for _ in range(count):
        produce(driving, USER_CLICKS, user(driving.draw.randint(1, USERS)), b"%d" % driving.draw.randint(0, 9))
        produce(driving, TICK, user(driving.draw.randint(1, USERS)), b"")
        booking = json.dumps({"amount": driving.draw.randint(-50, 500)}).encode()
        produce(driving, EXAMPLE.topic, driving.draw.randint(1, CUSTOMERS).to_bytes(8, "big"), booking)
        driving.out.poll(0)
    driving.out.flush()


def published(driving: Driving) -> dict[str, list[int]]:
    """All totals that were published, by region, in their order."""
    totals: defaultdict[str, list[int]] = defaultdict(list)
    for message in driving.read(CLICKS_PER_REGION):
        region, total = expected_answers.text(message)
        totals[region].append(int(total or -1))
    return dict(totals)


def assert_totals(driving: Driving, expected: dict[str, int]) -> None:
    """The answers and the last published totals are `expected`, and no total was published that went down."""
    assert driving.regions() == expected
    for region, clicks in expected.items():
        assert driving.get(f"/v1/regions/{region}").json() == {"region": region, "clicks": clicks}
    until(lambda: {region: of[-1] for region, of in published(driving).items()} == expected, 10, "the totals")
    assert all(of == sorted(of) for of in published(driving).values())


def pages(driving: Driving, path: str, member: str, limit: int = 100) -> list[Any]:
    """All entries of `path`, page by page."""
    entries: list[Any] = []
    cursor = ""
    while True:
        answer = driving.get(f"{path}?limit={limit}{cursor}")
        assert answer.status == 200, answer.data
        page = answer.json()
        entries += page[member]
        if page["next"] is None:
            return entries
        cursor = f"&cursor={page['next']}"


def assert_cases_agree(driving: Driving) -> None:
    """The answers of the three services equal a recount of their topics."""
    assert_totals(driving, expected_answers.clicks(driving.read(USER_REGIONS), driving.read(USER_CLICKS)))
    assert_notified(driving)
    histories = expected_answers.bookings(driving.read(EXAMPLE.topic))
    assert len(histories) == CUSTOMERS
    for key, history in histories.items():
        latest = max(history, key=lambda record: record["offset"])
        assert driving.get(f"/v1/topics/bookings/{key}").json() == {"key": key, **latest}
        assert pages(driving, f"/v1/topics/bookings/{key}/range", "records") == history
        assert pages(driving, f"/v1/topics/bookings/{key}/windows", "windows") == expected_answers.hourly(history)


def assert_notified(driving: Driving) -> None:
    sent = expected_answers.notifications(driving.read(OPEN), driving.read(TICK))
    messages = driving.read(NOTIFICATIONS)
    assert {message.value() for message in messages} == {b"You are not currently viewing Facebook."}
    assert set(causes(driving, messages)) == {(message.user, message.cause) for message in sent}
    windows = expected_answers.hopping(sent)
    for name, counts in windows.items():
        answered = pages(driving, f"/v1/notifications/{name}", "windows")
        assert [(window["start"], window["count"]) for window in answered] == sorted(counts.items())
    updates = [json.loads(message.value() or b"") for message in driving.read(NOTIFICATION_WINDOWS)]
    last: dict[tuple[str, int], int] = {}
    for update in updates:
        place = update["user"], update["windowStart"]
        last[place] = max(last.get(place, 0), update["count"])
    assert last == {(name, start): count for name, of in windows.items() for start, count in of.items()}


def causes(driving: Driving, messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """The user of each message, and topic:offset of the record that its header says it is about."""
    known = Topics(driving.cluster.kafka.bootstrap)
    names = {known.origin(topic).id: topic for topic in (OPEN, TICK)}
    for message in messages:
        marker = Marker.from_headers(message.headers())
        assert marker is not None
        assert marker.partition == message.partition()
        yield (message.key() or b"").decode(), f"{names[marker.topic_id]}:{marker.offset}"
