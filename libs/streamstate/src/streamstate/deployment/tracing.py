"""Traces of this process, by the standard variables of OpenTelemetry; the exporter is imported only when enabled."""

import os
from functools import cache
from typing import TYPE_CHECKING

from streamstate.errors import Misconfigured

if TYPE_CHECKING:
    from streamstate.deployment.spans import Spans

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"


def wanted() -> bool:
    """Whether the environment names a collector of traces, and does not disable it."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(map(os.environ.get, ENDPOINTS))


@cache
def spans(name: str) -> "Spans | None":
    """The maker of this process's spans, with the service name `name`; None where no collector is named.

    It exports in a thread: a process that forks calls the function in its children. Raises `Misconfigured` when it
    cannot export.
    """
    if not wanted():
        return None
    if any(os.environ.get(protocol, PROTOCOL) != PROTOCOL for protocol in PROTOCOLS):
        msg = f"change the environment: {PROTOCOLS[1]} can only be {PROTOCOL}"
        raise Misconfigured(msg)
    try:
        from streamstate.deployment.spans import Spans  # noqa: PLC0415, it takes memory, and time to import
    except ModuleNotFoundError as error:
        msg = f"{ENDPOINTS[1]} is set: install streamstate[traces], which exports to it"
        raise Misconfigured(msg) from error
    return Spans(name)
