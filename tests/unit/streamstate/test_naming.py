"""A second deployment of an app, over topics of its own."""

import pytest

from services.clicks.model import APP as CLICKS
from services.events import LISTENING_EVENTS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from services.names.model import ENRICHED
from streamstate.deployment.overrides import renamed
from streamstate.errors import Misconfigured


def test_an_app_under_its_own_name_is_itself() -> None:
    assert renamed(METRICS, "", {}) == METRICS


def test_another_deployment_shares_nothing_with_the_first() -> None:
    other = renamed(METRICS, "metrics-eu", {LISTENING_EVENTS: "listening-events-eu"})
    assert (other.name, other.group, other.topics) == ("metrics-eu", "metrics-eu", ("listening-events-eu",))
    assert other.dead_letters == "metrics-eu-dlq"
    assert {view.topic for view in other.views if view.topic} == {"listening-events-eu"}
    assert (METRICS.name, METRICS.group, METRICS.topics) == ("metrics", "metrics", (LISTENING_EVENTS,))


def test_every_topic_can_have_another_name() -> None:
    own = (*NAMES.topics, ENRICHED, NAMES.dead_letters)
    other = renamed(NAMES, "", {topic: f"eu.{topic}" for topic in own}, "teams.names")
    assert (*other.topics, other.output(ENRICHED), other.dead_letters) == tuple(f"eu.{topic}" for topic in own)
    assert other.tables == ("eu.artists", "eu.albums", "eu.tracks")
    assert (other.name, other.group) == ("names", "teams.names")
    (totals,) = renamed(CLICKS, "", {"clicks-per-region": "eu.clicks"}).totals
    assert totals.topic == "eu.clicks"


def test_dead_letters_of_another_deployment_can_have_any_name() -> None:
    assert renamed(METRICS, "metrics-eu", {"metrics-dlq": "dead"}).dead_letters == "dead"


def test_a_topic_that_the_app_has_not_is_refused() -> None:
    with pytest.raises(Misconfigured, match="metrics has no topic users; it has listening-events, metrics-dlq"):
        renamed(METRICS, "", {"users": "people"})


def test_two_topics_of_an_app_are_two() -> None:
    with pytest.raises(Misconfigured, match="names albums for several topics of names"):
        renamed(NAMES, "", {"artists": "albums"})


def test_two_deployments_do_not_write_into_one_topic() -> None:
    with pytest.raises(Misconfigured, match=r'TOPICS, such as {"clicks-per-region": "clicks-eu-clicks-per-region"}'):
        renamed(CLICKS, "clicks-eu", {})
