"""The stream process: its signals, its Spark, and a thread for each hosted app."""

import signal
import threading

import structlog
from py4j.protocol import Py4JError

from streamstate.settings import StreamSettings
from streamstate.spark import status
from streamstate.spark.query import Hosted, Stream
from streamstate.spark.session import session
from streamstate.spark.status import reason

log = structlog.get_logger()


def run(hosted: list[Hosted], settings: StreamSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises `SystemExit` (status 1) when the JVM is gone; start it again then."""
    stopping = threading.Event()
    # Before the JVM starts: a process that is the first of its container ignores signals that it has no handler for.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    spark = session(settings)
    streams = [Stream(app, settings, spark, stopping) for app in hosted]
    broken: list[BaseException] = []

    def guarded(stream: Stream) -> None:
        try:
            stream.run()
        except BaseException as error:
            broken.append(error)
            stopping.set()
            raise

    if settings.status_port:
        status.serve([stream.status for stream in streams], settings.status_port)
    threads = [threading.Thread(target=guarded, args=(stream,), name=stream.name, daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    stopping.wait()
    for thread in threads:
        thread.join(timeout=10)
    try:
        spark.stop()
    except (Py4JError, OSError) as error:
        broken.append(error)
    if broken:
        log.error("the stream process ends; start it again", reason=reason(Exception(str(broken[0]))))
        raise SystemExit(1)
