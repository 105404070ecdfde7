"""Several services' streams in one process and one JVM: `python -m devkit.streams metrics=127.0.0.1:8101 names=…`.

Each argument is one instance: a service and the address of its API.
"""

import importlib
import sys
from collections import Counter

from streamstate.app import App
from streamstate.settings import StreamSettings, load
from streamstate.spark.runner import Hosted, run


def hosted(arguments: list[str]) -> list[Hosted]:
    """What the arguments name; instances are numbered service by service, so that their names stay over restarts."""
    numbers: Counter[str] = Counter()
    found = []
    for argument in arguments:
        service, _, address = argument.partition("=")
        app: App = importlib.import_module(f"services.{service}.model").APP
        found.append(Hosted(app, f"{service}-{numbers[service]}", address))
        numbers[service] += 1
    return found


if __name__ == "__main__":
    run(hosted(sys.argv[1:]), load(StreamSettings))
