"""Several services' streams in a single process and JVM: `devkit.cluster.streams metrics-0=127.0.0.1:8101 names-0=…`.

Each argument is an instance, <service>-<number>, and the address of its API; a service is a folder of `services`, or
the YAML file of a profile.
"""

import sys

from devkit.registry import app
from streamstate import bootstrap
from streamstate.settings import StreamSettings
from streamstate.spark.process import run
from streamstate.spark.run import Hosted


def hosted(argument: str, settings: StreamSettings) -> Hosted:
    """The instance of an argument."""
    instance, _, address = argument.rpartition("=")
    service, _, number = instance.rpartition("-")
    own = app(service)
    return Hosted(bootstrap.deployed(own, settings), f"{own.name}-{number}", address)


if __name__ == "__main__":
    with bootstrap.exiting():
        settings = bootstrap.configure(StreamSettings)
        instances = [hosted(argument, settings) for argument in sys.argv[1:]]
        run(instances, settings)
