"""The API deployment of topics, for gunicorn: `services.topics.api:create()`."""

from functools import partial

from services.topics.model import app
from streamstate.web.api import create_api

create = partial(create_api, app)
