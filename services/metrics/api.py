"""The API deployment of metrics."""

from apiflask import APIFlask

from services.metrics.model import APP
from streamstate.settings import ApiSettings, load
from streamstate.web.api import create_api


def create() -> APIFlask:
    """For gunicorn: `services.metrics.api:create()`."""
    return create_api(APP, load(ApiSettings))
