"""Gunicorn for every API and the gateway: one process, so that its metrics are whole, and threads for waiting."""

from streamstate.web.api import THREADS

worker_class = "gthread"
workers = 1
threads = THREADS
# Longer than any client keeps a connection idle, so that none is closed under a request.
keepalive = 75
graceful_timeout = 10
limit_request_line = 8190
worker_tmp_dir = "/dev/shm"  # noqa: S108, gunicorn makes its own file in it
control_socket_disable = True
accesslog = None
loglevel = "warning"
