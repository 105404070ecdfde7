"""The gateway that the environment names."""

from streamstate.settings import UserSettings, load
from streamstate_client import Client


def gateway() -> Client:
    """A client of it. Raises `Misconfigured`."""
    settings = load(UserSettings)
    return Client(settings.gateway, settings.gateway_key.get_secret_value())
