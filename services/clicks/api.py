"""The API deployment of clicks, for gunicorn: `services.clicks.api:create()`."""

from functools import partial

from services.clicks.model import APP
from streamstate.web.api import create_api

create = partial(create_api, APP)
