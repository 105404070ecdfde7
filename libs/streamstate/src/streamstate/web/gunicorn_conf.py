"""Gunicorn for every API and the gateway: one process, so that its metrics are whole, and threads for waiting."""

from streamstate import logs
from streamstate.web.api import THREADS
from streamstate.web.refusals import FIELD_BYTES, FIELDS, REQUEST_LINE_BYTES

logs.configure()

worker_class = "streamstate.web.worker.Worker"
workers = 1
threads = THREADS
# Longer than any client keeps a connection idle, so that none is closed under a request.
keepalive = 75
graceful_timeout = 10
limit_request_line = REQUEST_LINE_BYTES
limit_request_fields = FIELDS
limit_request_field_size = FIELD_BYTES
worker_tmp_dir = "/dev/shm"  # noqa: S108, gunicorn makes its own file in it
control_socket_disable = True
accesslog = None
loglevel = "warning"
