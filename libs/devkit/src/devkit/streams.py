"""Several services' streams in one process and one JVM: `python -m devkit.streams metrics-0=127.0.0.1:8101 names-0=…`.

Each argument is one instance, <service>-<number>, and the address of its API.
"""

import sys

from devkit.registry import app
from streamstate.settings import StreamSettings, load
from streamstate.spark.process import run
from streamstate.spark.query import Hosted


def hosted(arguments: list[str]) -> list[Hosted]:
    """What the arguments name."""
    pairs = (argument.split("=") for argument in arguments)
    return [Hosted(app(instance.rpartition("-")[0]), instance, address) for instance, address in pairs]


if __name__ == "__main__":
    run(hosted(sys.argv[1:]), load(StreamSettings))
