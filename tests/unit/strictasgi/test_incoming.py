"""Requests out of bytes, however these come."""

import itertools
from collections.abc import Sequence

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictasgi.incoming import Head, Incoming
from strictasgi.refusals import MALFORMED, MOST_HEAD_BYTES

GET = b"GET /v1/numbers/a%20b?x=1&y=%20 HTTP/1.1\r\nHost: here\r\nX-A: 1\r\n\r\n"
SIZED = b"POST /v1/many HTTP/1.1\r\nHost: here\r\nContent-Length: 30\r\n\r\n{'GET / HTTP/1.1\\r\\n\\r\\n': []}"
CHUNKED = b"POST /v1/many HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
OLD = b"GET / HTTP/1.0\r\n\r\n"

Asked = list[tuple[str, bytes, bytes, bytes]]
"""Method, path, query and body of each request."""


def read(parts: Sequence[bytes]) -> Asked:
    """The requests in these parts of a client's bytes, without a rest."""
    incoming, asked = Incoming(), Asked()
    for part in parts:
        rest = part
        while rest:
            rest = incoming.feed(rest)
            assert incoming.refusal is None
            if incoming.whole and incoming.head:
                method, path, query = incoming.head[:3]
                asked.append((method, path, query, bytes(incoming.body)))
                incoming.next()
    assert incoming.head is None
    return asked


def head(sent: bytes) -> Head:
    """The head of a request that is taken."""
    incoming = Incoming()
    incoming.feed(sent)
    assert incoming.refusal is None
    assert incoming.head is not None
    return incoming.head


def status(sent: bytes) -> int:
    """That of the problem which `sent` is."""
    incoming = Incoming()
    assert incoming.feed(sent) == b""
    assert incoming.refusal is not None
    return incoming.refusal.status


@given(st.permutations([GET, SIZED, GET]), st.lists(st.integers(0, 300), max_size=12))
def test_requests_are_the_same_in_whatever_pieces_they_come(requests: list[bytes], cuts: list[int]) -> None:
    sent = b"".join([*requests, CHUNKED])
    places = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    parts = [sent[start:end] for start, end in itertools.pairwise(places)]
    expected = {
        GET: ("GET", b"/v1/numbers/a%20b", b"x=1&y=%20", b""),
        SIZED: ("POST", b"/v1/many", b"", SIZED[-30:]),
        CHUNKED: ("POST", b"/v1/many", b"", b"abcde"),
    }
    assert read(parts) == [expected[request] for request in [*requests, CHUNKED]]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(GET, True), (OLD, False), (OLD.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n"), True),
     (GET.replace(b"X-A: 1", b"Connection: close"), False)],
)  # fmt: skip
def test_whether_the_client_wants_to_ask_more(sent: bytes, kept: bool) -> None:
    assert head(sent).kept is kept


def test_the_form_of_address_for_proxies_is_taken() -> None:
    assert head(GET.replace(b"/v1", b"http://there/v1"))[1:3] == (b"/v1/numbers/a%20b", b"x=1&y=%20")
    assert head(GET.replace(b"/v1/numbers/a%20b?x=1&y=%20", b"https://there"))[1:3] == (b"/", b"")


@pytest.mark.parametrize(
    "sent",
    [
        GET.replace(b"Host: here\r\n", b""),
        GET.replace(b"X-A: 1", b"Transfer-Encoding: gzip, chunked"),
        GET.replace(b"?x", b"#x"),
        GET.replace(b"/v1/numbers", b"ftp://there/v1"),
        GET.replace(b"HTTP/1.1", b"HTTP/0.9"),
        GET.replace(b"HTTP/1.1", b"HTTP/2.0"),
        b"\r\n\r\n" + GET,
        GET.replace(b"Host: here", b"Host: he re"),
        GET.replace(b"Host: here", b"Host: here/x"),
        GET.replace(b"Host: here", b"Host: a@here"),
        GET.replace(b"Host: here", b"Host: here:port"),
        GET.replace(b"Host: here", b"Host: [::1"),
        CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        CHUNKED.replace(b"Host: here", b"Host: here\r\nTransfer-Encoding: gzip"),
        CHUNKED.replace(b"Host: here", b"Host: here\r\nTransfer-Encoding: chunked"),
    ],
)
def test_what_the_parser_takes_and_no_server_may(sent: bytes) -> None:
    assert status(sent) == MALFORMED.status


@pytest.mark.parametrize("host", [b"", b"here:80", b"[::1]", b"[::1]:80", b"127.0.0.1", b"a-b.example", b"a_b", b"%41"])
def test_a_host_is_a_name_or_an_address_and_perhaps_a_port(host: bytes) -> None:
    assert head(GET.replace(b"here", host)).fields[0] == (b"host", host)


def test_a_head_that_grows_without_end_is_refused_before_it_ends() -> None:
    incoming, sent = Incoming(), 0
    incoming.feed(b"GET / HTTP/1.1\r\nHost: here\r\n")
    while incoming.refusal is None and sent < 100_000:
        incoming.feed(b"X-A: 1\r\n" + b"X-B: " + b"1" * 3_000 + b"\r\n")
        sent += 3_000
    assert incoming.refusal is not None
    assert (incoming.refusal.status, sent < 40_000) == (431, True)


UPGRADE = b"Host: here\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAE"


@pytest.mark.parametrize("request_", [GET, SIZED, CHUNKED])
def test_a_request_that_asks_for_another_protocol_is_read_as_if_it_did_not(request_: bytes) -> None:
    assert read([request_.replace(b"Host: here", UPGRADE), GET]) == read([request_, GET])


def test_a_request_that_came_with_the_last_chunk_is_not_read() -> None:
    incoming = Incoming()
    incoming.feed(CHUNKED + GET)
    assert incoming.head is not None
    assert (incoming.head.method, bytes(incoming.body)) == ("POST", b"abcde")
    assert len(incoming.head.fields) == 2
    assert (incoming.refusal, incoming.whole, incoming.overrun) == (None, True, True)


AUTHORIZED = CHUNKED.replace(b"0\r\n\r\n", b"0\r\nAuthorization: Bearer x\r\nX-Direct: 1\r\n\r\n")


@pytest.mark.parametrize("cut", range(1, len(AUTHORIZED), 7))
def test_fields_behind_a_body_are_dropped(cut: int) -> None:
    incoming = Incoming()
    incoming.feed(AUTHORIZED[:cut])
    incoming.feed(AUTHORIZED[cut:])
    assert (incoming.refusal, incoming.whole, bytes(incoming.body)) == (None, True, b"abcde")
    assert incoming.head is not None
    assert [name for name, _ in incoming.head.fields] == [b"host", b"transfer-encoding"]


@pytest.mark.parametrize(
    "endless",
    [b"0\r\n" + b"a" * 1_000_000, b"0\r\nX-A: " + b"a" * 1_000_000, b"0\r\n" + b"X-A: 1\r\n" * 200_000,
     b"1;a=" + b"a" * 1_000_000, b"0" * 1_000_000],
)  # fmt: skip
@pytest.mark.parametrize("size", [1_000, 1_000_000])
def test_what_is_neither_head_nor_body_is_bounded_as_a_head_is(endless: bytes, size: int) -> None:
    incoming, seen = Incoming(), 0
    incoming.feed(CHUNKED[: CHUNKED.index(b"3\r\n")])
    parser, parse = incoming, incoming._parse

    def counted(data: bytes) -> None:
        nonlocal seen
        seen += len(data)
        parse(data)

    parser._parse = counted  # type: ignore[method-assign]
    for start in range(0, len(endless), size):
        if incoming.refusal is None:
            incoming.feed(endless[start : start + size])
    assert incoming.refusal is not None
    assert incoming.refusal.status in {400, 431}
    assert seen <= MOST_HEAD_BYTES


# The corners of RFC 9110 and 9112, with h11 as a second opinion.

LINES = [
    b"X-A:1", b"X-A:\t1\t", b"X-A:", b"X-A : 1", b" X-A: 1", b"X-A: 1\r\n 2", b"X-A: a\x00b", b"X-A: a\rb", b": 1",
    b"X-A", b"X\xc3: 1", b"X-A: \xc3", b"X(A): 1", b"Host: here", b"Content-Length: 0", b"Content-Length: 0\r\nX-A: 1",
    b"Content-Length: x", b"Content-Length: +1", b"Content-Length: -1", b"Content-Length: 1, 2", b"Content-Length: ",
    b"Content-Length: 1\r\nContent-Length: 2", b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked, gzip",
    b"Transfer-Encoding: gzip, chunked", b"Expect: 100-continue", b"Connection: close", b"Connection: keep-alive",
    b"Transfer-Encoding: chunked\r\nContent-Length: 1", b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
]  # fmt: skip
METHODS = [b"HEAD ", b"OPTIONS ", b"get ", b"G T ", b"GET  ", b" GET ", b"\x00GET "]
VERSIONS = [b"HTTP/1.0", b"http/1.1", b"HTTP/1.2", b"HTTP/11", b"HTTP/2.0", b""]
CHUNKS = [
    b"03\r\nabc",
    b"3;a=b\r\nabc",
    b"3 \r\nabc",
    b"0x3\r\nabc",
    b"-3\r\nabc",
    b"3\r\nabcd",
    b"g\r\nabc",
    b"\r\nabc",
]
HOSTS = [b"a b", b"", b"[::1]:80", b"a/b", b"a,b"]
CORNERS = [
    *([GET, SIZED, CHUNKED, OLD]),
    *(GET.replace(b"X-A: 1", line) for line in LINES),
    *(GET.replace(b"GET ", method) for method in METHODS),
    *(GET.replace(b"HTTP/1.1", version) for version in VERSIONS),
    *(CHUNKED.replace(b"3\r\nabc", chunk) for chunk in CHUNKS),
    *(CHUNKED.replace(b"0\r\n", trailer) for trailer in (b"0\r\nX-T: 1\r\n", b"0\r\n bad: 1\r\n")),
    CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0"),
    GET.replace(b"Host: here\r\n", b""),
    GET.replace(b"\r\n", b"\n"),
    *(GET.replace(b"Host: here", b"Host: " + host) for host in HOSTS),
]
STRICTER = [
    b"get ", b"HTTP/2.0", b"3 \r\n", b"here\r\n X-A", b"X-A: 1\r\n 2", b"HTTP/1.0\r\nHost: here\r\nTransfer",
    b"HTTP/1.2", b"Host: a", b"Host: here\n",
]  # fmt: skip
"""Parts of requests that h11 takes, and RFC 9112 lets a server refuse."""
LENIENT = [b"GET  "]
"""Parts of requests that h11 refuses, and RFC 9112, section 3, lets a server take."""


def second_opinion(sent: bytes) -> tuple[str, bytes] | None:
    """Method and body of the request in `sent` as h11 reads it; None where h11 refuses it, or waits for more."""
    other, method, body = h11.Connection(h11.SERVER), "", b""
    other.receive_data(sent)
    try:
        while not isinstance(event := other.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Request):
                method = event.method.decode()
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                return None
    except h11.RemoteProtocolError:
        return None
    return method, body


@pytest.mark.parametrize("sent", CORNERS)
def test_a_corner_of_the_rfc_is_read_as_another_library_reads_it(sent: bytes) -> None:
    incoming, rest = Incoming(), sent
    while rest and not incoming.whole:
        rest = incoming.feed(rest)
    ours = incoming.head and incoming.whole and (incoming.head.method, bytes(incoming.body))
    theirs = second_opinion(sent)
    if ours:
        assert theirs is not None or any(part in sent for part in LENIENT), "ours takes what h11 refuses"
        assert theirs is None or ours == theirs
    else:
        assert theirs is None or any(part in sent for part in STRICTER), "ours refuses what h11 takes"
