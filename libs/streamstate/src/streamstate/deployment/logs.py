"""Logging of every process."""

import sys

import structlog


def configure() -> None:
    """Log plain tracebacks: those of structlog may show the values of variables, which include user ids."""
    *before, _renderer = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, plain])
