"""The API deployment of topics."""

from services.topics.model import app
from streamstate.web.api import create_api
from streamstate.web.server.asgi import Asgi


def create() -> Asgi:
    """For gunicorn: `services.topics.api:create()`."""
    return create_api(app)
