"""The API deployment of notifications."""

from services.notifications.model import app
from streamstate.web.api import create_api
from streamstate.web.server.asgi import Asgi


def create() -> Asgi:
    """For gunicorn: `services.notifications.api:create()`."""
    return create_api(app)
