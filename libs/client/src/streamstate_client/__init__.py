"""A client of the gateway: profiles of users, once or at each change, and any other answer.

    from streamstate_client import Client

    client = Client("http://127.0.0.1:8080")
    profile = client.user(1)
    for profile in client.watch(1):
        ...

`streamstate_client.asynchronous.AsyncClient` has the same calls for an event loop, with the extra `async`.
"""

from streamstate_client.answers import Deletion, ListenerProfile, Played, Recommended, Why
from streamstate_client.client import Client
from streamstate_client.errors import GatewayError, Refused, Unavailable, Unreachable
from streamstate_client.protocol import Reply

__all__ = [
    "Client",
    "Deletion",
    "GatewayError",
    "ListenerProfile",
    "Played",
    "Recommended",
    "Refused",
    "Reply",
    "Unavailable",
    "Unreachable",
    "Why",
]
