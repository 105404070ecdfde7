"""The limits of a request's head, and the server's refusals in place of the application."""

from collections.abc import Callable
from typing import NamedTuple

MOST_LINE_BYTES = 8_190
"""The longest request line, and the longest header field."""

MOST_FIELDS = 100
MOST_HEAD_BYTES = 32 * 1024
"""The longest head of a request."""


class Refusal(NamedTuple):
    """An error that ends the connection. `kind` is a stable name, `detail` the next step of the client."""

    status: int
    kind: str
    detail: str


Refuse = Callable[[Refusal], tuple[bytes, bytes]]
"""Called once for each refusal; returns the content type and the body of the answer."""

MALFORMED = Refusal(400, "malformed-request", "this is no HTTP/1.1 request by RFC 9112; correct it")
ADDRESS_TOO_LONG = Refusal(414, "address-too-long", f"shorten the request line to {MOST_LINE_BYTES} bytes")
HEADERS_TOO_LARGE = Refusal(
    431,
    "headers-too-large",
    f"send at most {MOST_FIELDS} header fields of {MOST_LINE_BYTES} bytes each, {MOST_HEAD_BYTES} in all",
)
UNANSWERED = Refusal(500, "internal", "this is our fault; tell us when it was")
"""The application raised an exception, or returned without a whole answer."""


def plain(refusal: Refusal) -> tuple[bytes, bytes]:
    """The default answer: the detail as text."""
    return b"text/plain; charset=utf-8", refusal.detail.encode()
