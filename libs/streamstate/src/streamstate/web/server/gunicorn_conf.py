"""Gunicorn for every API and the gateway: event loops, one in each worker process."""

import gc
import os
import shutil
import socket
import tempfile
from typing import Any

# Decides, when it is imported first, whether the counts of several processes can be added up.
os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="streamstate-metrics-"))

from prometheus_client import multiprocess

from streamstate.deployment import logs
from streamstate.deployment.cores import cores
from streamstate.settings import HttpSettings, load

logs.configure()
_settings = load(HttpSettings)
_host = _settings.listen.rpartition(":")[0]

_UNREAD_MS = 5_000
"""A client may leave what was sent to it unread for so long."""

bind = [_settings.listen, *([f"{_host}:{_settings.probe_port}"] if _settings.probe_port else [])]
worker_class = "streamstate.web.server.worker.Worker"
workers = _settings.workers or cores()
worker_connections = _settings.connections
# Gunicorn's parser in C takes 7 µs less, and takes folded headers and bare line feeds for good.
http_parser = "python"
# Longer than any client keeps a connection idle, so that none is closed under a request.
keepalive = 75
graceful_timeout = 10
limit_request_line = 8_190
limit_request_fields = 100
limit_request_field_size = 8_190
worker_tmp_dir = "/dev/shm"  # noqa: S108, gunicorn makes its own file in it
control_socket_disable = True
accesslog = None
loglevel = "warning"


def when_ready(server: Any) -> None:
    """Let the kernel end a connection whose client does not read; accepted ones inherit it from the listening one."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        for listener in server.LISTENERS:
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)


def post_worker_init(_worker: Any) -> None:
    """What is there by now stays: looking for garbage in it again and again would cost a tenth of a read."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def child_exit(_server: Any, worker: Any) -> None:
    """What a worker counted stays counted; what it only showed goes."""
    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # it has no annotations


def on_exit(_server: Any) -> None:
    """The counts end with the process."""
    shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)
