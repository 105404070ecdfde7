"""Addresses of servers, and names of a second deployment."""

import pytest

from services.clicks.model import APP as CLICKS
from services.events import LISTENING_EVENTS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from services.names.model import ENRICHED
from streamstate.deployment.address import Address
from streamstate.deployment.overrides import renamed
from streamstate.errors import Misconfigured
from streamstate.state.redis_connections import SentinelUrl
from streamstate.web.client.instances import same_service

# Addresses of servers, host:port.

ADDRESSES = {
    "here:80": ("here", 80, True),
    "127.0.0.1:8101": ("127.0.0.1", 8101, False),
    "[::1]:8101": ("::1", 8101, False),
    "[fe80::1%eth0]:1": ("fe80::1%eth0", 1, False),
    "metrics-0.metrics.svc:8080": ("metrics-0.metrics.svc", 8080, True),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_read_and_written(text: str) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, address.is_name) == ADDRESSES[text]
    assert str(address) == text


@pytest.mark.parametrize("text", ["here", "::1:80", "[::1]", "http://here:80", "here:", ":80", "[here]:80", "a:b:80"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        Address.parse(text)


def test_sentinels_may_have_addresses_of_ipv6() -> None:
    watched = SentinelUrl.parse("redis+sentinel://[::1]:5000,here,[fd00::2]/main/3")
    assert watched.sentinels == [("::1", 5000), ("here", 26379), ("fd00::2", 26379)]


def test_addresses_of_ipv4_in_ipv6_are_no_domain() -> None:
    assert not same_service("[::ffff:10.0.0.1]:80", "[::ffff:11.0.0.1]:80")
    assert same_service("[::1]:80", "[::1]:81")
    assert same_service("metrics-0.pods:80", "metrics-1.pods:80")


# A second deployment of an app, over topics of its own.


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


def test_a_topic_that_the_app_has_not_is_refused() -> None:
    with pytest.raises(Misconfigured, match="metrics has no topic users; it has listening-events, metrics-dlq"):
        renamed(METRICS, "", {"users": "people"})


def test_two_topics_of_an_app_are_two() -> None:
    with pytest.raises(Misconfigured, match="names albums for several topics of names"):
        renamed(NAMES, "", {"artists": "albums"})


def test_two_deployments_do_not_write_into_one_topic() -> None:
    with pytest.raises(Misconfigured, match=r'TOPICS, such as {"clicks-per-region": "clicks-eu-clicks-per-region"}'):
        renamed(CLICKS, "clicks-eu", {})
