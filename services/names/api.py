"""The API deployment of names."""

from services.names.model import APP
from streamstate.web.api import create_api
from streamstate.web.server.asgi import Asgi


def create() -> Asgi:
    """For gunicorn: `services.names.api:create()`."""
    return create_api(APP)
