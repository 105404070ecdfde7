"""How the processes log."""

import sys

import structlog


def configure() -> None:
    """Log tracebacks as they are: structlog's own show the values of variables where it can, and these name users."""
    *before, _renderer = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, plain])
