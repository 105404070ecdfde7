"""`streamstate forward`: a local port that leads to a service in Kubernetes, and survives restarts of its pods."""

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from streamstate.cli.services import Service
from streamstate.errors import Declined, Misconfigured

PAUSE_S = 1.0
_PORT = 8080
"""The port of every API and the gateway in their pods."""

Instance = Annotated[int | None, typer.Argument(min=0, help="Number; default: any.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Local port.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Default: the context's.")]


def forward(service: Service, instance: Instance = None, *, port: Port = _PORT, namespace: Namespace = "") -> None:
    """Forward a local port to a service or instance by kubectl, also after a restart of the pod, until Ctrl-C."""
    target = f"service/{service}" if instance is None else f"pod/{service}-{instance}"
    where = ["--namespace", namespace] if namespace else []
    argv = ["kubectl", "port-forward", *where, target, f"{port}:{_PORT}"]
    with suppress(KeyboardInterrupt):
        reached = False
        while True:
            worked, error = _run(argv)
            reached = reached or worked
            if not reached:
                raise Declined(error or f"{' '.join(argv)} ended; run it to see why")
            sys.stderr.write(f"streamstate: {target} is gone ({error}); trying again\n")
            time.sleep(PAUSE_S)


def _run(argv: Sequence[str]) -> tuple[bool, str]:
    """Whether kubectl forwarded before its end, and the last line of its errors. Raises `Misconfigured` without it."""
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        msg = f"{argv[0]} is not installed here; install it, and choose the cluster by its context"
        raise Misconfigured(msg) from error
    with process:
        assert process.stdout
        assert process.stderr
        worked = False
        for line in process.stdout:
            worked = True
            sys.stdout.write(line)
            sys.stdout.flush()
        lines = process.stderr.read().splitlines()
    return worked, lines[-1] if lines else ""
