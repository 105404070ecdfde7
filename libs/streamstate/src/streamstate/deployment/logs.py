"""Logging of every process: JSON, a line each; plain text on a terminal and for the operators' command."""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Literal

import structlog

REQUEST_ID = "X-Request-Id"
TRACE_PARENT = "traceparent"

REQUEST: ContextVar[Mapping[str, str]] = ContextVar("request")
"""`REQUEST_ID` and `TRACE_PARENT` of the present request; every line has its ids."""


def configure(stream: Literal["stdout", "stderr"] = "stdout") -> None:
    """Log plain tracebacks: structlog's may show the values of variables, which include user ids.

    stream: stderr for commands, whose users read the log.
    """
    terminal = getattr(sys, stream).isatty()
    structlog.configure(
        processors=[
            _add_ids,
            structlog.processors.add_log_level,
            *(_for_people(colors=terminal) if terminal or stream == "stderr" else _for_machines()),
        ],
        logger_factory=lambda *_: structlog.PrintLogger(getattr(sys, stream)),
    )


def forward(name: str) -> None:
    """Log the messages of the standard library's logger `name` in the same way."""
    logging.getLogger(name).addHandler(_Forwarding())


class _Forwarding(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def _add_ids(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    headers = REQUEST.get({})
    if REQUEST_ID in headers:
        event["request_id"] = headers[REQUEST_ID]
    if TRACE_PARENT in headers:
        event["trace_id"] = headers[TRACE_PARENT].split("-")[1]
    return event


def _for_machines() -> list[structlog.typing.Processor]:
    stamp, traceback = structlog.processors.TimeStamper(fmt="iso"), structlog.processors.format_exc_info
    return [structlog.dev.set_exc_info, traceback, stamp, structlog.processors.JSONRenderer()]


def _for_people(*, colors: bool) -> list[structlog.typing.Processor]:
    stamp = structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False)
    plain = structlog.dev.plain_traceback
    return [structlog.dev.set_exc_info, stamp, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
