"""The API deployment of clicks."""

from apiflask import APIFlask

from services.clicks.model import APP
from streamstate.settings import ApiSettings, load
from streamstate.web.api import create_api


def create() -> APIFlask:
    """For gunicorn: `services.clicks.api:create()`."""
    return create_api(APP, load(ApiSettings))
