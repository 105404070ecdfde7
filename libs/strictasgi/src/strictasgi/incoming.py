"""Requests out of the bytes of one connection (RFC 9112), one after the other, without any I/O. llhttp parses them."""

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
"""Bytes of chunks that the parser gets at once: so of what is no body, it never gets more than `MOST_HEAD_BYTES`."""


class Head(NamedTuple):
    """Of a request: `path` is as it came, in ASCII and percent-encoded; the names of `fields` are in lower case.

    old: it came by HTTP/1.0. kept: the client wants to ask more on this connection. waits: the body comes only when
    the client is told to continue.
    """

    method: str
    path: bytes
    query: bytes
    fields: list[tuple[bytes, bytes]]
    old: bool
    kept: bool
    waits: bool


class Incoming:
    """What has come of the current request; its `body` is taken from here by who uses it.

    The parser gets one head at a time, and what is behind a request is given back: so of all that a client sends at
    once, one request alone is held as objects.
    """

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpRequestParser(self)
        self.next()

    def next(self) -> None:
        """Be ready for another request. The one before must be whole."""
        self.head: Head | None = None
        self.body = bytearray()
        self.whole = False
        self.refusal: Refusal | None = None
        """Why it is none; nothing more can be read then."""
        self.overrun = False
        """A part of the next request was parsed with this one, and is lost: no other one can be read."""
        self._tail = b""
        self._size = 0
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._left: int | None = None
        """Bytes of the body that are still to come; None where it comes in chunks."""
        self._idle = 0
        """Bytes of chunks since the last byte of a body."""

    def close(self) -> None:
        """Free the parser, which refers to this object: the garbage collector comes after very many connections."""
        self._parser = None

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the current request, which is not whole; returns the rest, empty after a refusal."""
        if self.head is None:
            data = self._feed_head(data)
        if data and self.head is not None and not self.whole:
            data = self._feed_body(data)
        return b"" if self.refusal else data

    def _feed_head(self, data: bytes) -> bytes:
        # The end may be in two pieces.
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
        """Sizes of chunks, their extensions and the fields behind the last chunk may be as long as a head."""
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
        """Read the head again as if it had not asked for another protocol (RFC 9110, section 7.8)."""
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT":
            # Whatever follows is for the server that it asks for.
            self.overrun = True
            return
        line = b"%b %b HTTP/%b" % (method, self._url, version)
        fields = [b"%b: %b" % field for field in self._fields if field[0] != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self.head, self.whole, self._url, self._fields = None, False, b"", []
        self._parse(b"\r\n".join([line, *fields, b"", b""]))

    # What the parser tells.

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
            # Behind a body: nobody has looked whether a field may stand there (RFC 9110, section 6.5.1).
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
        """The head that is complete, None when it is malformed in what the parser does not look at."""
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
    """The path and the query of a request's target; None when it is none that is served here."""
    if not raw.startswith(b"/"):
        # The form for proxies, which every server must take (RFC 9112, section 3.2.2).
        if not raw.startswith((b"http://", b"https://")):
            return None
        url = httptools.parse_url(raw)
        raw = (url.path or b"/") + (b"?" + url.query if url.query else b"")
    if b"#" in raw or not raw.isascii():
        return None
    path, _, query = raw.partition(b"?")
    return path, query
