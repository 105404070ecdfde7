"""The corners of RFC 9110 and 9112, with h11 as a second opinion."""

import h11
import pytest

from strictasgi.incoming import Incoming
from tests.unit.strictasgi.test_incoming import CHUNKED, GET, OLD, SIZED

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
