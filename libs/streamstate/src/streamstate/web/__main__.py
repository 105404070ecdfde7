"""The process of an API, and of the gateway: `python -m streamstate.web services.metrics`."""

import os
import tempfile

# Decides, when prometheus_client is imported, whether the counts of several processes can be added up.
os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="streamstate-metrics-"))

from streamstate import bootstrap
from streamstate.deployment.connections import HttpSettings
from streamstate.web.api import create
from streamstate.web.process import GunicornServer
from streamstate.web.server.asgi import Asgi


def main(service: str) -> None:
    """Serve until SIGTERM. Exits with `bootstrap.MISCONFIGURED` when a setting or the service does not fit."""

    def load() -> Asgi:
        with bootstrap.exiting():
            return create(service)

    with bootstrap.exiting():
        server = GunicornServer(bootstrap.configure(HttpSettings, service), load)
    server.run()


if __name__ == "__main__":
    main(bootstrap.service_named("streamstate.web"))
