"""A build at a rate, which the operator changes, pauses and lifts."""

import time

from tests.deployment import Deployment
from tests.waiting import until

RECORDS, RATE = 4_000, 400
LOOKED_S = 3
"""Two looks at the rate, and a commit."""


def test_a_build_at_a_rate(deployment: Deployment) -> None:
    deployment.send(RECORDS)
    stream = deployment.stream(BUILD_RATE=str(RATE))
    until(deployment.position, 60, "the first commit")
    started, first = time.monotonic(), deployment.position()
    time.sleep(LOOKED_S)
    folded, seconds = deployment.position() - first, time.monotonic() - started
    # The commit of the last second, at most, was before.
    assert 0 < folded <= RATE * (seconds + 1)
    assert deployment.command("throttle", "0") == {
        "service": deployment.name, "rate": 0, "partitions": 1, "dry_run": False,
    }  # fmt: skip
    time.sleep(LOOKED_S)
    paused = deployment.position()
    assert deployment.command("status")["warnings"] == [
        "builds are limited to 0 records a second (`streamstate throttle`)"
    ]
    time.sleep(LOOKED_S)
    assert deployment.position() == paused < RECORDS
    assert stream.stop() == 0
    # The operator's rate holds for the next process, too.
    deployment.stream(BUILD_RATE=str(RATE))
    until(lambda: deployment.snapshot().epoch > 1, 60, "the next claim")
    time.sleep(LOOKED_S)
    assert deployment.position() == paused
    deployment.command("throttle", "1000000")
    deployment.folded(RECORDS)
    assert deployment.snapshot().values[0]["#"] == RECORDS
