"""The API deployment of topics."""

from apiflask import APIFlask

from services.topics.model import APP
from streamstate.settings import ApiSettings, load
from streamstate.web.api import create_api


def create() -> APIFlask:
    """For gunicorn: `services.topics.api:create()`."""
    return create_api(APP, load(ApiSettings))
