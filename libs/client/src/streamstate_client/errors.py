"""Errors of the client."""


class GatewayError(Exception):
    """Base class; the message says what to do next."""


class Refused(GatewayError):
    """The gateway refuses the request; repeating the request does not help. `status` is the HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Unavailable(GatewayError):
    """The gateway cannot answer at the moment: repeat the request later."""


class Unreachable(Unavailable):
    """No gateway answers at the address."""
