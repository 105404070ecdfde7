"""The API deployment of names, for gunicorn: `services.names.api:create()`."""

from functools import partial

from services.names.model import APP
from streamstate.web.api import create_api

create = partial(create_api, APP)
