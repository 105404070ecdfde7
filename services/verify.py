"""`make verify`: recounts the topics and holds every stored key of every service against it, while the streams run.

python -m services.verify [service ...]

Settings are those of the streams (`STREAMSTATE_KAFKA`, `STREAMSTATE_REDIS` …). The exit status is 1 when something
differs, 2 when it cannot be told.
"""

import sys
from collections.abc import Iterable, Iterator

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from streamstate import bootstrap
from streamstate.errors import StreamStateError
from streamstate.service import declared, paths
from streamstate.settings import ServiceSettings
from streamstate.verify.check import Check, Report
from streamstate.verify.recount import Recounted

SHOWN = 20
"""The most differences of a service that are printed one by one."""


def recounts() -> dict[str, Recounted]:
    """How each service that has a `recount.py` is recounted, by service."""
    declarations = (declared(path, "recount") for path in paths("services", "recount").values())
    made: Iterable[Recounted] = map(bootstrap.made, declarations)
    return {recounted.service: recounted for recounted in made}


def verify(settings: ServiceSettings, names: Iterable[str] = ()) -> Iterator[Report]:
    """One service after the other, those in `names` or all. Raises `StreamStateError`, or the clients' own errors."""
    known = recounts()
    for name in names or known:
        if name not in known:
            msg = f"there is no recount of {name}; there are those of {', '.join(known)}"
            raise StreamStateError(msg)
        yield Check(known[name], settings).run()


def main(names: list[str]) -> int:
    """Print what differs. The exit status."""
    status = 0
    try:
        for report in verify(bootstrap.configure(ServiceSettings), names):
            print(report)
            for difference in report.differences[:SHOWN]:
                print(f"  {difference}")
            status = 1 if report.differences else status
    except (StreamStateError, RedisError, KafkaException) as error:
        sys.stderr.write(f"verify: {error}\n")
        return 2
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
