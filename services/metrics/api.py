"""The API deployment of metrics, for gunicorn: `services.metrics.api:create()`."""

from functools import partial

from services.metrics.model import APP
from streamstate.web.api import create_api

create = partial(create_api, APP)
