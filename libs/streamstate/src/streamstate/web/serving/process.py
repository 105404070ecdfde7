"""The processes of a server: gunicorn's, with an event loop in each worker."""

import os
import shutil
import socket
from collections.abc import Callable, Mapping
from typing import Any

from gunicorn.app.base import BaseApplication
from prometheus_client import multiprocess

from streamstate.deployment import resources
from streamstate.deployment.address import Address
from streamstate.settings import HttpSettings
from streamstate.web.server import tls
from streamstate.web.server.asgi import Asgi

_UNREAD_MS = 5_000
"""A client may leave what was sent to it unread for so long."""


class GunicornServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no annotations
    """Gunicorn; `create` makes the application in each worker process. `run` returns when all of them have ended.

    certificates: what LISTEN shows; None for plain HTTP.
    """

    def __init__(self, settings: HttpSettings, create: Callable[[], Asgi]) -> None:
        """Raises `Misconfigured` when a file of TLS cannot be used."""
        self._options = options(settings)
        self.certificates = tls.shown(settings)
        self._create = create
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Asgi:
        return self._create()


def options(settings: HttpSettings) -> Mapping[str, Any]:
    """Gunicorn's own settings and hooks, by their names."""
    at = Address.parse(settings.listen).bound
    return {
        "bind": [str(at), *([str(at._replace(port=settings.probe_port))] if settings.probe_port else [])],
        "worker_class": "streamstate.web.serving.worker.Worker",
        "workers": settings.workers or resources.cores(),
        "worker_connections": settings.connections,
        "graceful_timeout": 10,
        "worker_tmp_dir": "/dev/shm",  # noqa: S108, gunicorn makes its own file in it
        "control_socket_disable": True,
        "accesslog": None,
        "loglevel": "warning",
        **{hook.__name__: hook for hook in (when_ready, post_worker_init, child_exit, on_exit)},
    }


def when_ready(server: Any) -> None:
    """Let the kernel end a connection whose client does not read; accepted ones inherit it from the listening one."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        for listener in server.LISTENERS:
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)


def post_worker_init(_worker: Any) -> None:
    """What a worker needs is there by now."""
    resources.look_at_new_objects_only()


def child_exit(_server: Any, worker: Any) -> None:
    """What a worker counted stays counted; what it only showed goes."""
    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # it has no annotations


def on_exit(_server: Any) -> None:
    """The counts end with the process."""
    shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)
