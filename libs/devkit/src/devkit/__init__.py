"""A laptop's Kafka, Redis and listening events, for demo, tests and bench; never part of a deployment.

The servers are real ones on 127.0.0.1: children of the process that asks for them, their data in a folder.
"""

from streamstate.errors import StreamStateError


class DevkitError(StreamStateError):
    """A server that does not start, a port that is taken, data that cannot be read."""
