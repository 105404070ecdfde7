"""The gateway as in a cluster: it learns the instances from an API server, here the one at `API_SERVER`."""

import os

from kubernetes import client, config

from services.gateway import api
from streamstate.web.server.asgi import Asgi


def _configure(configuration: client.Configuration) -> None:
    configuration.host = os.environ["API_SERVER"]
    configuration.retries = False


def create() -> Asgi:
    """What a pod is given in files, its API server and account, is the only thing that differs."""
    config.load_incluster_config = _configure
    return api.create()
