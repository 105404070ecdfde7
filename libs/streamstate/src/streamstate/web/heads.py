"""What is seen of an HTTP request before it is parsed: whether its head is whole, and what kind of request it is."""

import re

MOST_BYTES = 32 * 1024
"""The longest head; most of it are headers, the parser limits the request line."""

_END = re.compile(rb"\r\n\r\n|(?<!\r)\n")
_STATUS = re.compile(rb"GET /(?:livez|readyz|metrics)[ ?]")
_PLAIN = re.compile(
    rb"(?!" + _STATUS.pattern + rb")GET [!-~]+ HTTP/1\.1\r\n"
    rb"(?:(?!content-length:|transfer-encoding:|connection:)[\w!#$%&'*+.^`|~-]+:[^\r\n]*\r\n)*\r\n",
    re.IGNORECASE | re.ASCII,
)


def too_large(received: bytes) -> bool:
    """Whether the first head in `received` is longer than one may be."""
    return len(received) > MOST_BYTES and _END.search(received, 0, MOST_BYTES) is None


def whole(received: bytes) -> bool:
    """Whether the parser can decide without waiting for more: the head has ended, or a bare line feed spoils it."""
    return _END.search(received) is not None


def asks_for_status(head: bytes) -> bool:
    """Whether this is a probe or a scrape, which must be answered however busy the process is."""
    return _STATUS.match(head) is not None


def plain(received: bytes) -> bool:
    """Whether this is one question without a body and nothing else, after which the connection stays usable."""
    return _PLAIN.fullmatch(received) is not None
