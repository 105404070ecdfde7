"""The API deployment of metrics."""

from services.metrics.model import APP
from streamstate.web.api import create_api
from streamstate.web.server.asgi import Asgi


def create() -> Asgi:
    """For gunicorn: `services.metrics.api:create()`."""
    return create_api(APP)
