"""The processes of a server: gunicorn's, with an event loop in each worker."""

import os
import shutil
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from gunicorn.app.base import BaseApplication
from prometheus_client import multiprocess

from streamstate.deployment import logs, resources
from streamstate.deployment.address import Address
from streamstate.deployment.connections import HttpSettings
from streamstate.web.access.certificates import shown
from streamstate.web.http.problems import CONTENT_TYPE, REFUSED, encoded
from streamstate.web.server.asgi import Asgi
from strictasgi import worker
from strictasgi.refusals import Refusal


class GunicornServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no annotations
    """Gunicorn; `create` makes the application in each worker process. `run` returns after the end of all workers.

    certificates: the certificates of LISTEN; None for plain HTTP.
    """

    def __init__(self, settings: HttpSettings, create: Callable[[], Asgi]) -> None:
        """Raises `Misconfigured` when a file of TLS cannot be used."""
        self._options = options(settings)
        self.certificates = shown(settings)
        self._create = create
        logs.forward("strictasgi")
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Asgi:
        return self._create()


class Worker(worker.Worker):
    """The worker process: refusals are problems, and the first address of LISTEN has the certificates."""

    def run(self) -> None:
        resources.look_at_new_objects_only()
        super().run()

    def tls(self, socket: Any) -> Callable[[], ssl.SSLContext] | None:
        # The other address is for probes, which know no certificates.
        shown = self.app.certificates and socket is self.sockets[0]
        return (lambda: self.app.certificates.content) if shown else None

    def refuse(self, refusal: Refusal) -> tuple[bytes, bytes]:
        self.wsgi.telemetry.refused(refusal.kind)
        return CONTENT_TYPE.encode(), encoded(REFUSED[refusal.kind])


def options(settings: HttpSettings) -> Mapping[str, Any]:
    """Gunicorn's own settings and hooks, by their names."""
    at = Address.parse(settings.listen).bound
    return {
        "bind": [str(at), *([str(at._replace(port=settings.probe_port))] if settings.probe_port else [])],
        "worker_class": Worker,
        "workers": settings.workers or resources.cores(),
        "worker_connections": settings.connections,
        "keepalive": settings.idle_s,
        "graceful_timeout": 10,
        "worker_tmp_dir": "/dev/shm",  # noqa: S108, gunicorn makes its own file in it
        "control_socket_disable": True,
        "accesslog": None,
        "loglevel": "warning",
        **{hook.__name__: hook for hook in (child_exit, on_exit)},
    }


def child_exit(_server: Any, worker: Any) -> None:
    """A worker's counters outlive the worker, its gauges do not."""
    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # it has no annotations


def on_exit(_server: Any) -> None:
    """The counts end with the process."""
    shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)
