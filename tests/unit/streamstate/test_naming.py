"""A second deployment of an app, over topics of its own."""

import pytest

from services.events import LISTENING_EVENTS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from streamstate.deployment.overrides import renamed
from streamstate.errors import Misconfigured


def test_an_app_under_its_own_name_is_itself() -> None:
    assert renamed(METRICS, "", {}) == METRICS


def test_another_deployment_shares_nothing_with_the_first() -> None:
    other = renamed(METRICS, "metrics-eu", {LISTENING_EVENTS: "listening-events-eu"})
    assert (other.name, other.topics, other.dead_letters) == ("metrics-eu", ("listening-events-eu",), "metrics-eu-dlq")
    assert {view.topic for view in other.views} == {"listening-events-eu"}
    assert (METRICS.name, METRICS.topics) == ("metrics", (LISTENING_EVENTS,))


def test_a_topic_that_is_not_read_is_refused() -> None:
    with pytest.raises(Misconfigured, match="metrics does not read users; it reads listening-events"):
        renamed(METRICS, "", {"users": "people"})


def test_a_table_that_is_looked_up_keeps_its_name() -> None:
    with pytest.raises(Misconfigured, match="names refers to artists by name"):
        renamed(NAMES, "", {"artists": "musicians"})
