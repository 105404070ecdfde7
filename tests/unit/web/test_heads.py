"""What is seen of a request before it is parsed."""

import pytest

from streamstate.web import heads

GET = b"GET /v1/users/1 HTTP/1.1\r\nHost: here\r\n"


@pytest.mark.parametrize("received", [GET + b"\r\n", GET + b"\r\nmore", b"\r\n\r\n", b"GET / HTTP/1.1\n", b"\n"])
def test_a_head_is_whole_when_it_can_be_decided(received: bytes) -> None:
    assert heads.whole(received)


@pytest.mark.parametrize("received", [b"", b"GET", GET, GET + b"\r", b"\r\n", b"\r"])
def test_a_head_is_not_whole_before(received: bytes) -> None:
    assert not heads.whole(received)


def test_a_head_is_too_large_however_it_comes() -> None:
    long = GET + b"X: " + b"1" * heads.MOST_BYTES
    assert heads.too_large(long)
    assert heads.too_large(long + b"\r\n\r\n")
    assert not heads.too_large(long[: heads.MOST_BYTES])
    assert not heads.too_large(GET + b"\r\n" + long)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/readyz?verbose"])
def test_probes_are_known(path: str) -> None:
    assert heads.asks_for_status(f"GET {path} HTTP/1.1\r\n\r\n".encode())


@pytest.mark.parametrize("path", ["/", "/livezz", "/v1/livez", "/v1/users/1?a=/livez", "//livez"])
def test_nothing_else_is_a_probe(path: str) -> None:
    assert not heads.asks_for_status(f"GET {path} HTTP/1.1\r\n\r\n".encode())


@pytest.mark.parametrize("header", [b"", b"Accept: */*\r\n", b"X-Min-Position: a:1=2\r\nX: content-length: 1\r\n"])
def test_a_plain_question_leaves_the_connection_usable(header: bytes) -> None:
    assert heads.plain(GET + header + b"\r\n")


@pytest.mark.parametrize(
    "received",
    [
        GET, GET + b"\r\n" + GET, GET + b"\r\n ", GET + b"Content-Length: 1\r\n\r\n", GET + b"CONTENT-length:1\r\n\r\n",
        GET + b"Content-Length : 1\r\n\r\n", GET + b"Transfer-Encoding: chunked\r\n\r\n",
        GET + b"Connection: close\r\n\r\n",
        GET + b"X\n: 1\r\n\r\n", GET + b"X: \n1\r\n\r\n", GET + b" folded\r\n\r\n", b"HEAD" + GET[3:] + b"\r\n",
        b"POST" + GET[3:] + b"\r\n", GET.replace(b"1.1", b"1.0") + b"\r\n",
        GET.replace(b"/v1/users/1", b"/livez") + b"\r\n",
    ],
)  # fmt: skip
def test_after_anything_else_it_is_closed(received: bytes) -> None:
    assert not heads.plain(received)
