"""The API deployment of notifications."""

from apiflask import APIFlask

from services.notifications.model import APP
from streamstate.settings import ApiSettings, load
from streamstate.web.api import create_api


def create() -> APIFlask:
    """For gunicorn: `services.notifications.api:create()`."""
    return create_api(APP, load(ApiSettings))
