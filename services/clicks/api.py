"""The API deployment of clicks."""

from services.clicks.model import APP
from streamstate.web.api import create_api
from streamstate.web.server.asgi import Asgi


def create() -> Asgi:
    """For gunicorn: `services.clicks.api:create()`."""
    return create_api(APP)
