"""The gateway of the environment."""

from streamstate.settings import UserSettings, load
from streamstate_client import Client


def gateway() -> Client:
    """A client of the gateway. Raises `Misconfigured`."""
    settings = load(UserSettings)
    return Client(settings.gateway, settings.gateway_key.get_secret_value())
