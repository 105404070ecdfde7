"""The API deployment of notifications, for gunicorn: `services.notifications.api:create()`."""

from functools import partial

from services.notifications.model import app
from streamstate.web.api import create_api

create = partial(create_api, app)
