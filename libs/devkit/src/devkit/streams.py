"""Several services' streams in one process and one JVM: `python -m devkit.streams metrics-0=127.0.0.1:8101 names-0=…`.

Each argument is one instance, <service>-<number>, and the address of its API.
"""

import importlib
import sys

from streamstate.app import App
from streamstate.settings import StreamSettings, load
from streamstate.spark.process import run
from streamstate.spark.query import Hosted


def hosted(arguments: list[str]) -> list[Hosted]:
    """What the arguments name."""
    pairs = (argument.split("=") for argument in arguments)
    return [Hosted(_app(instance.rpartition("-")[0]), instance, address) for instance, address in pairs]


def _app(service: str) -> App:
    app: App = importlib.import_module(f"services.{service}.model").APP
    return app


if __name__ == "__main__":
    run(hosted(sys.argv[1:]), load(StreamSettings))
