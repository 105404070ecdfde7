"""Addresses of servers, host:port."""

import pytest

from streamstate.deployment.address import Address
from streamstate.state.redis import SentinelUrl
from streamstate.web.client.instances import same_service

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
