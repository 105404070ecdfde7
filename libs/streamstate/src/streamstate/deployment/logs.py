"""Logging of every process."""

import sys
from typing import Literal

import structlog


def configure(stream: Literal["stdout", "stderr"] = "stdout") -> None:
    """Log plain tracebacks: those of structlog may show the values of variables, which include user ids."""
    *before, _renderer = structlog.get_config()["processors"]
    colors = getattr(sys, stream).isatty()
    plain = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[*before, plain], logger_factory=lambda *_: structlog.PrintLogger(getattr(sys, stream))
    )
