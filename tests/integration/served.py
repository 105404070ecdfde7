"""A deployment with its API, behind a gateway."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.servers.child_process import LOCALHOST, free_port
from tests.deployment import Deployment


@contextmanager
def served(deployment: Deployment, service: str, home: Path, **settings: str) -> Iterator[str]:
    """The URL of a gateway before the API of `service` and a stream of `deployment`; logs are in `home`."""
    api, gateway = (f"{LOCALHOST}:{free_port()}" for _ in range(2))
    servers = {"KAFKA": deployment.cluster.kafka.bootstrap, "REDIS": deployment.redis}
    own = {**servers, "NAME": deployment.name, "ADVERTISE": api, **settings}
    gateways = {"INSTANCES": json.dumps({deployment.name: api}), "OWNERS_TTL_S": "1"}
    with ExitStack() as held:
        held.callback(deployment.close)
        deployment.stream(**settings)
        for name, address, given in ((service, api, own), ("gateway", gateway, gateways)):
            child = LocalCluster.api(f"services.{name}", f"{deployment.name}-{name}", address, home, given)
            held.enter_context(child)
            child.wait_until(lambda at=address: answers(f"http://{at}/livez"), 30)  # type: ignore[misc]
        yield f"http://{gateway}"
