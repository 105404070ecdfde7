"""What a call may raise."""


class GatewayError(Exception):
    """Base of both: the message says what to do next."""


class Refused(GatewayError):
    """A request that was answered with a problem, which asking again does not solve. `status` is that of HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Unavailable(GatewayError):
    """A gateway that cannot answer now: ask again."""


class Unreachable(Unavailable):
    """No gateway answers at the address."""
