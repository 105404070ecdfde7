"""A laptop's Kafka, Redis and listening events, for demo, tests and bench; never part of a deployment.

The servers are real servers on 127.0.0.1: children of the calling process, with their data in a folder.
"""

from streamstate.errors import StreamStateError


class DevkitError(StreamStateError):
    """A server does not start, a port is taken, or data cannot be read."""
