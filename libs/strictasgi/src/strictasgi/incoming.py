"""Requests from the bytes of one connection (RFC 9112), one after the other, parsed by llhttp, without any I/O."""

import re
from typing import Any, NamedTuple

import httptools

from strictasgi.refusals import (
    ADDRESS_TOO_LONG,
    HEADERS_TOO_LARGE,
    MALFORMED,
    MOST_FIELDS,
    MOST_HEAD_BYTES,
    MOST_LINE_BYTES,
    Refusal,
)

_END = b"\r\n\r\n"
_CODING = b"transfer-encoding"
_SINGLE = (b"host", b"content-length", b"expect")
_HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[\w.~!$&'()*+,;=%-]*)(:\d*)?", re.ASCII)
"""RFC 3986, sections 3.2.2 and 3.2.3."""

_SLICE = MOST_HEAD_BYTES // 2
"""Bytes of chunks given to the parser at once: so it never gets more than `MOST_HEAD_BYTES` of sizes and trailers."""


class Head(NamedTuple):
    """The head of a request. path: in ASCII and percent-encoded. fields: with names in lower case.

    old: HTTP/1.0. kept: the client may send further requests on the connection. waits: the client sends the body after
    `100 Continue`.
    """

    method: str
    path: bytes
    query: bytes
    fields: list[tuple[bytes, bytes]]
    old: bool
    kept: bool
    waits: bool


class Incoming:
    """The received parts of the current request; the reader takes the bytes of `body`.

    The parser gets one head at a time, and `feed` returns bytes behind the request: of pipelined requests, only one is
    held as objects.
    """

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpRequestParser(self)
        self.next()

    def next(self) -> None:
        """Prepare for the next request. The previous request must be whole."""
        self.head: Head | None = None
        self.body = bytearray()
        self.whole = False
        self.refusal: Refusal | None = None
        """The refusal of a malformed request; no further request can be read."""
        self.overrun = False
        """The parser has taken a part of the next request, which is lost: no further request can be read."""
        self._tail = b""
        self._size = 0
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._left: int | None = None
        """Missing bytes of the body; None for a body in chunks."""
        self._idle = 0
        """Bytes of chunks since the last byte of a body."""

    def close(self) -> None:
        """Free the parser: its reference cycle would wait for the garbage collector, a very long time."""
        self._parser = None

    def feed(self, data: bytes) -> bytes:
        """Parse the bytes of the current request; returns the rest, empty after a refusal."""
        if self.head is None:
            data = self._feed_head(data)
        if data and self.head is not None and not self.whole:
            data = self._feed_body(data)
        return b"" if self.refusal else data

    def _feed_head(self, data: bytes) -> bytes:
        # Two pieces of data may share the end of the head.
        known = self._tail + data
        end = known.find(_END)
        size = len(data) if end < 0 else end + len(_END) - len(self._tail)
        self._size += size
        self._parse(data[:size])
        if self.head is None and self.refusal is None:
            if end >= 0:
                self.refusal = MALFORMED
            elif self._size > MOST_HEAD_BYTES:
                self.refusal = HEADERS_TOO_LARGE
            self._tail = known[1 - len(_END) :]
        return data[size:]

    def _feed_body(self, data: bytes) -> bytes:
        if self._left is None:
            return self._feed_chunks(data)
        size = min(self._left, len(data))
        self._left -= size
        self._parse(data[:size])
        return data[size:]

    def _feed_chunks(self, data: bytes) -> bytes:
        """Sizes of chunks, extensions and trailers may be as long as a head together."""
        while data and not self.whole and self.refusal is None:
            self._idle += len(data[:_SLICE])
            if self._idle > MOST_HEAD_BYTES:
                self.refusal = HEADERS_TOO_LARGE
            else:
                self._parse(data[:_SLICE])
                data = data[_SLICE:]
        return data

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._stay()
        except httptools.HttpParserError:
            if not self.overrun:
                self.refusal = self.refusal or MALFORMED

    def _stay(self) -> None:
        """Read the head again without the request for another protocol (RFC 9110, section 7.8)."""
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT":
            # All further bytes are for the requested server.
            self.overrun = True
            return
        line = b"%b %b HTTP/%b" % (method, self._url, version)
        fields = [b"%b: %b" % field for field in self._fields if field[0] != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self.head, self.whole, self._url, self._fields = None, False, b"", []
        self._parse(b"\r\n".join([line, *fields, b"", b""]))

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self.whole:
            self.overrun = True
            msg = "a further request behind chunks"
            raise httptools.HttpParserError(msg)

    def on_url(self, part: bytes) -> None:
        self._url += part
        if len(self._url) > MOST_LINE_BYTES:
            self.refusal = ADDRESS_TOO_LONG

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head is not None:
            # A trailer: not every field may be one (RFC 9110, section 6.5.1).
            return
        self._fields.append((name.lower(), value))
        if len(name) + len(value) > MOST_LINE_BYTES or len(self._fields) > MOST_FIELDS:
            self.refusal = HEADERS_TOO_LARGE

    def on_headers_complete(self) -> None:
        if self.refusal is None:
            self.head = self._head()
            if self.head is None:
                self.refusal = MALFORMED

    def on_body(self, part: bytes) -> None:
        self.body += part
        self._idle = 0

    def on_message_complete(self) -> None:
        self.whole = True

    def _head(self) -> Head | None:
        """The complete head; None when malformed beyond the checks of the parser."""
        version, target = self._parser.get_http_version(), _target(self._url)
        known = {name: value for name, value in self._fields if name in _SINGLE}
        hosts = sum(name == b"host" for name, _ in self._fields)
        codings = [value.lower() for name, value in self._fields if name == _CODING]
        # HTTP/1.0 has no codings (RFC 9112, section 6.1).
        framed = not codings or (codings == [b"chunked"] and version == "1.1")
        named = (version, hosts) in (("1.1", 1), ("1.0", 1), ("1.0", 0)) and _HOST.fullmatch(known.get(b"host", b""))
        if target is None or not framed or not named:
            return None
        if length := known.get(b"content-length"):
            self._left = int(length)
        path, query = target
        old, waits = version == "1.0", known.get(b"expect", b"").lower() == b"100-continue"
        method, kept = self._parser.get_method().decode(), self._parser.should_keep_alive()
        return Head(method, path, query, self._fields, old, kept, waits and not old)


def _target(raw: bytes) -> tuple[bytes, bytes] | None:
    """The path and the query of a request's target; None for an unsupported target."""
    if not raw.startswith(b"/"):
        # The form for proxies, required of every server (RFC 9112, section 3.2.2).
        if not raw.startswith((b"http://", b"https://")):
            return None
        url = httptools.parse_url(raw)
        raw = (url.path or b"/") + (b"?" + url.query if url.query else b"")
    if b"#" in raw or not raw.isascii():
        return None
    path, _, query = raw.partition(b"?")
    return path, query
