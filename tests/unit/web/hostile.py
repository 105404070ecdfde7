"""What no server may take, in bytes."""

from urllib.parse import quote

from tests.raw import NO_IDS
from tests.unit.web.process import KNOWN, post, request

METHODS = ["POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "BREW", "get", "G", "GET\t"]

IDS = [quote(text, safe="") for text in NO_IDS] + ["", "1%0d%0aX:%20y", "..%2f..%2fprocessors", "%", "%zz", "7/"]

PARAMETERS = ["least=-1", "least=10", "least=1000000000", "least=1;2", "least=nan", "least=", "least=1&least=2"]

HALF = b"GET /v1/numbers/7 HTTP/1.1\r\nHost: here\r\nX-A: "

UNREAD = b"POST /v1/numbers/7 HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n1"


HOSTILE = [
    (request("/v1/many?" + "&".join(["numbers=1"] * 500)), 400),
    (post(b'{"numbers": [7]}', "Content-Length: 15"), 400),
    (post(b'{"numbers": ["x"]}', "Content-Length: 18"), 400),
    (post(b'{"numbers\xc8": [7]}', "Content-Length: 17"), 400),
    (post(b'{"numbers": ["\xc8"]}', "Content-Length: 18"), 400),
    (post(b'10\r\n{"numbers": [7]}\r\n0\r\n', "Transfer-Encoding: chunked"), 408),
    (post(b"not hex\r\n", "Transfer-Encoding: chunked"), 400),
    (post(b'{"numbers": [7', "Content-Length: 16"), 408),
    (post(b"", "Content-Length: 1", "Expect: 100-continue"), 408),
    (post(b" " * 200_000, "Content-Length: 200000"), 413),
    (post(b" " * 140_000, "Content-Length: 99999999999"), 413),
    (post(b"1\r\n \r\n" * 140_000, "Transfer-Encoding: chunked"), 413),
    (request(KNOWN + "?a=" + "1" * 8_200), 414),
    (b"GET /" + b"1" * 40_000, 414),
    (request(KNOWN, *(f"X-{number}: 1" for number in range(100))), 431),
    (request(KNOWN, "X-A: " + "1" * 9_000), 431),
    (b"GET / HTTP/1.1\r\n" + b"X-A: 1\r\n" * 5_000, 431),
    (request(KNOWN, "Content-Length: 5", "Transfer-Encoding: chunked"), 400),
    (request(KNOWN, "Content-Length: 5", "Content-Length: 6"), 400),
    (request(KNOWN, "Content-Length: -5"), 400),
    (request(KNOWN, "Content-Length: +5"), 400),
    (request(KNOWN, "Transfer-Encoding: nonsense"), 400),
    (request(KNOWN, "Transfer-Encoding: chunked, chunked"), 400),
    (request(KNOWN, "Host: there"), 400),
    (request(KNOWN, "X-A : 1"), 400),
    (request(KNOWN, " folded: 1"), 400),
    (request(KNOWN, "X-Request-Id: a\rb"), 400),
    (request(KNOWN, "X-Request-Id: a\x00b"), 400),
    (request(KNOWN, "X-Request-Id: " + "a" * 10_000), 431),
    (request(KNOWN, "X-Deadline-Ms: soon"), 400),
    (request("no-slash"), 400),
    (request("/v1/words/%ff"), 400),
    (request("*"), 400),
    (request("/ä"), 400),
    (b"GET /\r\n\r\n", 400),
    (b"GET / HTTP/3.0\r\n\r\n", 400),
    (b"GET / HTTP/1.1\nHost: here\n\n", 400),
    (b"GET / HTTP/1.1\r\nHost: here\nX-A: 1", 400),
    (b"\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
]
"""Requests that are none, and the statuses of the answers."""

MALFORMED = [
    *((request(f"/v1/numbers/{text}"), {400, 404}) for text in IDS),
    *((request(f"/v1/above/7?{text}"), {400}) for text in PARAMETERS),
    *((request(KNOWN, method=method), {400, 405}) for method in METHODS),
    *((sent, {status}) for sent, status in HOSTILE),
]
