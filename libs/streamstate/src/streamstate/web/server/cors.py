"""Cross-origin requests (WHATWG Fetch, section 3.3) from pages of other origins."""

from collections.abc import Collection, Mapping
from typing import Any

from streamstate.deployment.logs import REQUEST_ID
from streamstate.web.http.demands import HEADER, MAX_STALENESS, MIN_POSITION
from streamstate.web.http.events import LAST_EVENT_ID
from streamstate.web.server import responses

ANY = "*"
_METHOD = b"access-control-request-method"
_TOLD = {"Vary": "Origin"}
_SENT = ("Authorization", "Content-Type", LAST_EVENT_ID, REQUEST_ID, HEADER, MIN_POSITION, MAX_STALENESS)
_ANSWERED = {"Access-Control-Expose-Headers": ", ".join(responses.HEADERS)}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, DELETE",
    "Access-Control-Allow-Headers": ", ".join(_SENT),
    "Access-Control-Max-Age": "600",
}


class Cors:
    """The `origins`, each scheme://host[:port], whose pages may read answers; `ANY` stands for all origins."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = origins

    def headers(self, scope: Mapping[str, Any]) -> Mapping[str, str]:
        """The headers to add to the answer to a request."""
        if not self._origins:
            return {}
        if not (origin := self._allowed(scope)):
            return _TOLD
        return {**_TOLD, "Access-Control-Allow-Origin": origin, **(_PREFLIGHT if _asks_before(scope) else _ANSWERED)}

    def asked_before(self, scope: Mapping[str, Any]) -> bool:
        """Whether a request is the preflight of an allowed origin: a browser sends preflights without a credential."""
        return bool(self._origins) and _asks_before(scope) and bool(self._allowed(scope))

    def _allowed(self, scope: Mapping[str, Any]) -> str:
        """The origin of the requesting page; empty for a forbidden origin, or a request without an origin."""
        origin = next((text.decode("latin-1") for name, text in scope["headers"] if name == b"origin"), "")
        return origin if origin in self._origins or ANY in self._origins else ""


def _asks_before(scope: Mapping[str, Any]) -> bool:
    return scope["method"] == "OPTIONS" and any(name == _METHOD for name, _ in scope["headers"])
