"""The process of the archiver: `python -m services.archive`."""

import signal
import sys
import threading

from services.archive.archiver import Archiver
from services.archive.schemas import SchemaKeeper
from services.archive.settings import ArchiverSettings
from services.archive.status import ArchiverStatus
from streamstate import bootstrap
from streamstate.deployment import metrics
from streamstate.errors import Misconfigured
from streamstate.history.archive.files import Archive
from streamstate.kafka.consumer_group import Held, Membership

TURN_S = 10.0
"""Seconds between two looks at the ends of partitions."""

SESSION_TIMEOUT_MS = 10_000


def run(settings: ArchiverSettings) -> None:
    """Archive until the process ends. Raises `Misconfigured`."""
    if not (settings.archive and settings.archive_topics):
        msg = 'set STREAMSTATE_ARCHIVE, a folder or a URI, and STREAMSTATE_ARCHIVE_TOPICS, such as ["listening-events"]'
        raise Misconfigured(msg)
    status, held, changed = ArchiverStatus(settings.archive_group), Held(), threading.Event()

    def hold(partitions: Held) -> None:
        nonlocal held
        held, status.known = partitions, True
        changed.set()

    archive = Archive(settings.archive)
    schemas = SchemaKeeper(archive, settings.schema_registry(), settings.formats)
    topics = bootstrap.topics(settings.kafka, settings.security)
    archiver = Archiver(archive, topics, settings, status, schemas)
    membership = Membership(
        settings.kafka, settings.archive_group, settings.instance, SESSION_TIMEOUT_MS, hold, settings.security
    )
    if settings.status_port:
        metrics.serve(status.application(), settings.status_address)
    membership.start(*settings.archive_topics)
    try:
        while True:
            if not archiver.turn(held):
                changed.wait(min(TURN_S, settings.archive_seconds))
            changed.clear()
            membership.require()
            membership.commit(archiver.ends())
    finally:
        membership.stop()


def main() -> None:
    """Run until SIGTERM. Exits with `bootstrap.MISCONFIGURED` for an invalid setting."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with bootstrap.exiting():
        run(bootstrap.configure(ArchiverSettings, "services.archive"))


if __name__ == "__main__":
    main()
