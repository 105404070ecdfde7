"""The gateway as a client sees it: JSON answers, and problems as errors."""

from http import HTTPStatus
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from streamstate.errors import StreamStateError
from streamstate.settings import UserSettings, load

_TIMEOUT = urllib3.Timeout(connect=2.0, read=10.0)
"""Seconds. The gateway's own deadline is shorter."""


class Refused(StreamStateError):
    """A request that the gateway answered with a problem; `status` is that of HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Unavailable(StreamStateError):
    """A gateway that does not answer, or that cannot answer now."""


class Gateway:
    """Requests to one gateway, with the API key or token `key` unless that is empty. `url` has no path."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = urllib3.PoolManager(headers=headers, timeout=_TIMEOUT, retries=False)

    def get(self, path: str) -> Any:
        """The JSON at `path`. Raises `Refused` with the detail of a problem, or `Unavailable`."""
        try:
            answer = self._http.request("GET", f"{self.url}{path}")
            body = msgspec.json.decode(answer.data)
        except (HTTPError, msgspec.DecodeError) as error:
            msg = f"the gateway at {self.url} does not answer; check that it runs and that STREAMSTATE_GATEWAY names it"
            raise Unavailable(msg) from error
        if answer.status == HTTPStatus.OK:
            return body
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Unavailable(body["detail"])
        raise Refused(answer.status, body["detail"])


def gateway() -> Gateway:
    """The one that the environment names. Raises `Misconfigured`."""
    settings = load(UserSettings)
    return Gateway(settings.gateway, settings.gateway_key.get_secret_value())
