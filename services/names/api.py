"""The API deployment of names."""

from apiflask import APIFlask

from services.names.model import APP
from streamstate.settings import ApiSettings, load
from streamstate.web.api import create_api


def create() -> APIFlask:
    """For gunicorn: `services.names.api:create()`."""
    return create_api(APP, load(ApiSettings))
