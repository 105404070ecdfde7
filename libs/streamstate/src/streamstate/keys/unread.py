"""Keys of records that are in any partition."""

from streamstate.errors import BadKey


class Unread:
    """Keys that a service does not read; records are in any partition."""

    name = "unread"

    def encode(self, key: None) -> bytes:  # noqa: ARG002, the protocol's
        return b""

    def decode(self, raw: bytes | None) -> None:
        """No key."""

    def parse(self, text: str) -> None:  # noqa: ARG002, the protocol's
        msg = "records without a key of their own have no URL"
        raise BadKey(msg)


UNREAD = Unread()
