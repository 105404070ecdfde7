"""The gateway as in a cluster: it learns the instances from an API server, here the one at `API_SERVER`."""

import os

import httpx2

from services.gateway import api, endpoints
from streamstate.web.server.asgi import Asgi


def _api_server() -> httpx2.Client:
    return httpx2.Client(base_url=os.environ["API_SERVER"])


def create() -> Asgi:
    """Only the address of the API server, and the account, differ from a pod's."""
    endpoints.api_server = _api_server
    return api.create()
