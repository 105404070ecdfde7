"""Invalid records, sent to a deployment of its own: no record stops or spoils the rest."""

import time

from streamstate.kafka.dlq.topic import is_halting
from tests.deployment import Deployment
from tests.integration.driving import headers, read
from tests.waiting import until

DAY_MS = 86_400_000
NANOSECONDS = 1_800_000_000_000_000_000
LONG_MAX = 2**63 - 1
ZERO_OF_GO = -62_135_596_800_000
"""The year 1: a time that a program in Go did not set."""


def refused(deployment: Deployment) -> set[tuple[bytes, bytes]]:
    """Stage and offset of the dead letters that are committed."""
    letters = read(deployment.cluster, f"{deployment.name}-dlq")
    found = [headers(letter) for letter in letters if not is_halting(letter)]
    return {(of["x-stage"], of["__streams.errors.offset"]) for of in found}


def test_records_from_the_future_and_from_before_1970(deployment: Deployment) -> None:
    """Such timestamps would let every window and history expire; Spark cannot even read timestamps in nanoseconds.

    Before 1970, Spark reads it by another calendar.
    """
    deployment.configure("message.timestamp.after.max.ms", LONG_MAX)
    now = int(time.time() * 1_000)
    deployment.put(now, now + 30 * DAY_MS, now + 1, NANOSECONDS, now + 2, NANOSECONDS, now + 3, ZERO_OF_GO, -2)
    expected = {(b"timestamp", b"%d" % offset) for offset in (1, 3, 5, 7, 8)}
    stream = deployment.stream()
    deployment.folded(9)
    assert deployment.snapshot().times == {deployment.topic: now + 3}
    assert refused(deployment) == expected
    deployment.put(now + 4, NANOSECONDS, now + 5)
    deployment.folded(12)
    assert deployment.snapshot().counters["dead_letters"] == 6
    stream.stop()
    deployment.empty()
    deployment.stream(FUTURE_MS=str(60 * DAY_MS))
    deployment.folded(12)
    assert deployment.snapshot().times == {deployment.topic: now + 5}
    assert refused(deployment) == {*expected, (b"timestamp", b"10")}
    assert deployment.snapshot().counters["dead_letters"] == 6


def test_a_topic_of_broken_records_stops_the_stream_before_it_is_dead_lettered(deployment: Deployment) -> None:
    deployment.send(500)
    stream = deployment.stream()
    deployment.folded(500)
    deployment.put(*[0] * 400, value=b"{")
    stream.refused("roll back the release or fix the decoder")

    def faults() -> str:
        return "; ".join(deployment.command("status")["faults"])

    until(lambda: "roll back the release" in faults(), 30, "status to say so too")
    assert "stream-0 does not fold" in faults()
    listed = deployment.command("dlq list")
    assert listed["by_reason"]["not committed: DecodeError"] >= 3
    replay = deployment.command("dlq replay", "--dry-run")
    assert replay["left_out"]["of a record still to be folded"] >= 3
    stream.stop()
    assert 500 <= deployment.position() <= 600
    assert len(refused(deployment)) <= 100
    deployment.stream(DEAD_LETTER_SHARE="1")
    deployment.folded(900)
    assert len(refused(deployment)) == 400
    verified = deployment.command("verify")
    assert (verified["faults"], verified["differences"]) == ([], [])
