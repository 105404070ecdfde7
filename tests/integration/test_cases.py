"""Clicks, notifications and topics on the real ring: worked examples, lookups, and exact."""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import urllib3
from confluent_kafka import Message, murmur2

from devkit.local_cluster import get
from services.clicks.model import CLICKS_PER_REGION, USER_CLICKS, USER_REGIONS
from services.notifications.model import NOTIFICATION_WINDOWS, NOTIFICATIONS, OPEN, TICK
from services.topics.settings import EXAMPLE
from streamstate.kafka.admin import Topics
from streamstate.keys import Marker
from streamstate.web.partition_map import PATH
from tests.integration import expected_cases as expected_answers
from tests.integration.driving import Driving
from tests.serving import sample
from tests.waiting import until
from tests.worked import CLICKS, TOTALS

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


def test_the_worked_example_of_clicks_has_the_totals_counted_by_hand(driving: Driving) -> None:
    for time, topic, key, value in CLICKS:
        produce(driving, topic, key.encode(), None if value is None else value.encode(), time)
        driving.out.flush()
    settle(driving)
    assert_totals(driving, TOTALS)


def test_each_answer_equals_a_recount(driving: Driving) -> None:
    change_states(driving)
    feed(driving)
    settle(driving)
    assert_cases_agree(driving)
    assert driving.differences(*SERVICES) == []


def test_a_reader_that_keeps_the_last_marker_drops_repeats_and_nothing_else(driving: Driving) -> None:
    """Ten windows are updated by one message: each update has a marker of its own, in ascending order."""
    updates = driving.read(NOTIFICATION_WINDOWS)
    last: dict[tuple[int | None, str, int], tuple[int, int]] = {}
    kept = []
    for message in [*updates, *updates]:
        marker = Marker.from_headers(message.headers())
        assert marker is not None
        source = message.partition(), marker.topic_id, marker.partition
        if (marker.offset, marker.number) > last.get(source, (-1, -1)):
            last[source] = marker.offset, marker.number
            kept.append(message)
    markers = {marker for message in updates if (marker := Marker.from_headers(message.headers()))}
    assert len(kept) == len(markers)
    assert max(Counter(marker[:3] for marker in markers).values()) == 10


def test_a_history_is_read_page_by_page(driving: Driving) -> None:
    history = expected_answers.bookings(driving.read(EXAMPLE.topic))[1]
    assert len(history) > 7
    assert pages(driving, "/v1/topics/bookings/1/range", "records", limit=7) == history
    first, last = history[0]["timestamp"], history[-1]["timestamp"]
    between = driving.get(f"/v1/topics/bookings/1/range?from={first + 1}&to={last}").json()["records"]
    assert between == history[1:-1]
    assert driving.get("/v1/topics/bookings/1/range?limit=0").status == 400


def test_nine_partitions_are_shared_by_three_instances(driving: Driving) -> None:
    addresses = driving.cluster.addresses["topics"]
    maps = [get(f"{driving.cluster.url}/v1/topics/processors"), get(f"http://{addresses[2]}{PATH}")]
    for owners_map in maps:
        owned = {f"{owner['host']}:{owner['port']}": owner["partitions"] for owner in owners_map["instances"]}
        assert sorted(owned) == sorted(addresses)
        assert sorted(map(len, owned.values())) == [3, 3, 3]
        assert sorted(itertools.chain(*owned.values())) == list(range(9))


def owners(driving: Driving) -> dict[int, str]:
    partitions = get(f"{driving.cluster.url}/v1/topics/processors")["partitions"]
    return {entry["partition"]: entry["owner"] for entry in partitions}


def test_a_lookup_goes_straight_to_the_instance_that_has_the_key(driving: Driving) -> None:
    where = owners(driving)
    for key in range(1, CUSTOMERS + 1):
        owner = where[murmur2(key.to_bytes(8, "big"), 9)]
        assert driving.get(f"/v1/topics/bookings/{key}").headers["Served-By"] == owner
        other = next(address for address in where.values() if address != owner)
        passed_on = urllib3.request("GET", f"http://{other}/v1/topics/bookings/{key}")
        assert (passed_on.status, passed_on.headers["Served-By"]) == (200, owner)
    many = driving.get("/v1/many?" + "&".join(f"topic-bookings={key}" for key in range(1, CUSTOMERS + 2))).json()
    unknown = [key for key, value in many["topic-bookings"].items() if value is None]
    assert (len(many["topic-bookings"]), unknown) == (CUSTOMERS + 1, [str(CUSTOMERS + 1)])


def test_lookups_go_on_when_an_instance_dies(driving: Driving) -> None:
    before = [driving.get(f"/v1/topics/bookings/{key}").json() for key in range(1, CUSTOMERS + 1)]
    victim = next(api for api in driving.cluster.apis if api.name == "topics-1")
    victim.kill()
    answers = [driving.get(f"/v1/topics/bookings/{key}") for key in range(1, CUSTOMERS + 1)]
    driving.cluster.revive()
    assert [answer.json() for answer in answers] == before
    assert "standby" in {answer.headers["Served-By"] for answer in answers}


def test_a_record_that_is_too_late_for_its_window_is_counted_as_such(driving: Driving) -> None:
    produce(driving, OPEN, b"user-late", b"Closed")
    produce(driving, TICK, b"user-late", b"")
    settle(driving)
    counted = late(driving)
    produce(driving, TICK, b"user-late", b"", START_MS - 86_400_000)
    settle(driving)
    assert late(driving) == counted + 1
    produce(driving, OPEN, b"user-late", b"Open")
    settle(driving)


def late(driving: Driving) -> float:
    (address,) = driving.cluster.addresses["notifications"]
    lines = "\n".join(driving.lines(f"http://{address}/metrics")) + "\n"
    name = "streamstate_counted_total"
    counts = [sample(lines, name, what="late_records", partition=str(partition)) for partition in range(8)]
    return sum(count or 0 for count in counts)
