"""A play on its way through the system: produced to Kafka, folded, requested from the gateway.

python -m services.smoke URL    (Kafka: the settings STREAMSTATE_KAFKA…)
"""

import secrets
import sys
import time

import msgspec
import urllib3

from services.events import LISTENING_EVENTS, ListeningEvent
from streamstate import bootstrap
from streamstate.deployment.connections import KafkaSettings
from streamstate.kafka.producer import Outgoing, producer, send_all
from streamstate.keys import LONG

WITHIN_S = 60


def main(url: str) -> None:
    """Exits with a reason when a new user's only play is not counted within a minute."""
    with bootstrap.exiting():
        settings = bootstrap.configure(KafkaSettings)
    # An unused user id: most ids are free.
    user = secrets.randbelow(2**62) + 2**62
    play = ListeningEvent(user, 1, 1, 1, time.time_ns() // 1_000_000)
    record: Outgoing = (LISTENING_EVENTS, LONG.encode(user), msgspec.json.encode(play), [])
    send_all(producer(settings.kafka, settings.security), [record])
    start, answer = time.monotonic(), None
    while time.monotonic() - start < WITHIN_S:
        answer = urllib3.request("GET", f"{url}/v1/users/{user}", timeout=5, retries=False)
        if answer.status == 200 and answer.json()["eventCount"] == 1:
            sys.stdout.write(f"a play was counted {time.monotonic() - start:.1f} s after it was sent\n")
            return
        time.sleep(0.1)
    said = answer.data.decode() if answer else "none"
    sys.exit(f"a play was not counted within {WITHIN_S} s; the last answer: {said}")


if __name__ == "__main__":
    main(*sys.argv[1:])
