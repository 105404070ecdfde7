"""All plays by day and hour, counted by hand."""

from services.metrics.model import APP
from services.metrics.plays import DAY_MS, HOUR_MS, PERIOD_MS, DayOfPlays, HourOfPlays, Plays, Span
from streamstate.keys import LONG
from streamstate.operators.windows import LATE
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Fields
from streamstate.testing import Driver
from tests.raw import play_json

START = 600 * PERIOD_MS


def played(driver: Driver, *times: int, partition: int = 0) -> None:
    """A play at each Kafka timestamp, one micro-batch. The moment in the play itself does not count here."""
    first = driver.store.read({partition: []})[partition].positions.get("listening-events", 0)
    play = play_json((7, 1, 2, 3, 4))
    records = [(first + number, time, LONG.encode(7), play) for number, time in enumerate(times)]
    driver.feed(partition, {"listening-events": records})


def plays(driver: Driver, **span: int) -> Plays:
    answer = driver.view("plays", query=Span(**span))
    assert isinstance(answer, Plays)
    return answer


def test_nobody_has_played_anything() -> None:
    assert plays(Driver(APP, MemoryStore())) == Plays(0, [], [])


def test_plays_of_all_partitions_are_counted_by_day_and_hour() -> None:
    driver = Driver(APP, MemoryStore(), partitions=2)
    played(driver, START + 22 * HOUR_MS, START + 22 * HOUR_MS + 1, START + 24 * HOUR_MS)
    played(driver, START + 22 * HOUR_MS + 2, partition=1)
    assert plays(driver) == Plays(
        4,
        [DayOfPlays(START, 3), DayOfPlays(START + DAY_MS, 1)],
        [
            HourOfPlays(START + 22 * HOUR_MS, 3, 3),
            HourOfPlays(START + 23 * HOUR_MS, 0, 0),
            HourOfPlays(START + 24 * HOUR_MS, 1, 1),
        ],
    )
    of_a_day = plays(driver, from_=START + DAY_MS, to=START + 2 * DAY_MS)
    assert of_a_day == Plays(4, [DayOfPlays(START + DAY_MS, 1)], [HourOfPlays(START + DAY_MS, 1, 1)])


def test_an_unusual_hour_shows_beside_what_is_usual() -> None:
    driver = Driver(APP, MemoryStore())
    for day in range(5):
        played(driver, *[START + day * DAY_MS] * (90 if day == 3 else 10))
    shown = [(hour.count, hour.usual) for hour in plays(driver).hours if hour.start % DAY_MS == 0]
    assert shown == [(10, 10), (10, 10), (10, 10), (90, 10), (10, 10)]


def test_hours_are_kept_for_one_period_at_least_and_two_at_most() -> None:
    driver = Driver(APP, MemoryStore())
    played(driver, START)
    played(driver, START + 2 * PERIOD_MS - 1, START, START - 1)
    assert [hour.count for hour in plays(driver).hours if hour.count] == [2, 1]
    played(driver, START + 2 * PERIOD_MS, START)
    last = START + 2 * PERIOD_MS
    answer = plays(driver)
    assert answer.count == 6
    assert [(hour.start, hour.count) for hour in answer.hours] == [(last - HOUR_MS, 1), (last, 1)]
    assert driver.store.read({0: []})[0].counters == {LATE: 2}


def test_a_time_without_plays_leaves_nothing_of_older_periods() -> None:
    driver = Driver(APP, MemoryStore())
    played(driver, START - 1, START)
    played(driver, START + 7 * PERIOD_MS)
    assert plays(driver).hours == [HourOfPlays(START + 7 * PERIOD_MS, 1, 1)]
    assert driver.store.read({0: [Fields("plays:0"), Fields("plays:1")]})[0].values.count({}) == 1
