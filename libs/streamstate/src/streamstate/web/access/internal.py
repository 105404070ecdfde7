"""The token between gateway and instances: no caller bypasses the gateway."""

import hmac
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from streamstate.errors import Misconfigured
from streamstate.web.access.watched_file import WatchedFile

HEADER = "X-Instance-Token"
_TOKEN = re.compile(rb"[A-Za-z0-9_-]{32,200}")


class InternalTokens:
    """The tokens of a file, one a line: the first is sent, each is accepted.

    To rotate a token without failed requests, append the new token everywhere, then put it first, then remove the old.
    """

    def __init__(self, path: Path, failed: Callable[[str], None] | None = None) -> None:
        """Raises `Misconfigured` when the file cannot be read."""
        self._file = WatchedFile(path, parse, failed)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of a request to an instance."""
        return {HEADER: self._file.content[0].decode()}

    def accept(self, given: bytes) -> bool:
        """Whether `given` is an accepted token; constant time for refused tokens."""
        return sum(hmac.compare_digest(token, given) for token in self._file.content) > 0


def parse(content: bytes) -> tuple[bytes, ...]:
    """The tokens of a file. Raises `Misconfigured`."""
    tokens = tuple(content.split())
    if not tokens or not all(map(_TOKEN.fullmatch, tokens)):
        msg = "write one token a line, each of 32 to 200 letters, digits, - and _"
        raise Misconfigured(msg)
    return tokens
