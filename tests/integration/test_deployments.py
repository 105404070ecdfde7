"""Services deployed over topics of their own: refusals, repeats, rates, and records that nothing can use."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
import urllib3

from devkit.cluster.local_cluster import LocalCluster, get
from devkit.servers.child_process import LOCALHOST, free_port
from devkit.servers.redis import Redis
from services.events import LISTENING_EVENTS
from streamstate.kafka.consumer_group import Held, Membership
from streamstate.kafka.dlq.topic import is_halting
from tests.deployment import USER, Deployment
from tests.integration.driving import headers, read
from tests.integration.releases import Releases
from tests.waiting import now_ms, pause, until, until_equal


def test_a_topic_that_is_to_be_written_and_is_missing_is_named_before_a_record_needs_it(deployment: Deployment) -> None:
    """Else one bad record would block the stream for ever."""
    dead_letters = f"{deployment.name}-dlq"
    deployment.admin.delete_topics([dead_letters])[dead_letters].result()
    deployment.send(100)
    stream = deployment.stream()
    advice = f"the topic {dead_letters} cannot be read"
    stream.refused(advice)
    until(lambda: any(advice in fault for fault in deployment.command("status")["faults"]), "status to name it")
    deployment.create()
    deployment.folded(100)


def test_another_environment_in_the_consumer_group_is_refused_before_it_takes_partitions(
    deployment: Deployment, releases: Releases, tmp_path: Path
) -> None:
    """Each would count a part of the records, and of two instances with one name, each would end the other."""
    stream = deployment.build()
    server = Redis(tmp_path / "staging", free_port())
    server.start()
    staging = Deployment(deployment.cluster, deployment.name, server.url, releases.make)
    try:
        for number, instance in enumerate(("stream-1", "stream-0")):
            other = staging.stream(INSTANCE=instance)
            other.refused(f"stream-0 ({LOCALHOST}) of the same consumer group does not write", staging.redis, "GROUP")
            deployment.send(10)
            deployment.folded(110 + 10 * number)
            other.stop()
        assert stream.get("/readyz").status == 200
        assert f"stream-0 ({LOCALHOST}) of the same" in str(staging.command("status")["faults"])
        assert staging.position() == 0
    finally:
        staging.close()
        server.stop()


def test_who_needs_a_silent_kafka_says_since_when_until_it_answers(deployment: Deployment) -> None:
    stream = deployment.build()
    api = deployment.api()
    read_user = partial(urllib3.request, "GET", f"http://{api}/v1/users/{USER}/metrics")
    until(lambda: "State-Age-Ms" in read_user().headers, "an answer with its age")
    broker = psutil.Process(deployment.cluster.kafka.pid)
    broker.suspend()
    since = "has not answered since 2"
    try:
        until(lambda: since in str(stream.get("/readyz").json().get("reasons")), "the stream to say so")
        until(lambda: since in get(f"http://{api}/readyz").get("kafka", ""), "the API to say so")
        until(lambda: since in str(get(f"http://{api}/processors")["instances"]), "the stream to report it")
        answer = read_user()
        assert (answer.status, answer.json()["eventCount"]) == (200, 100)
        assert int(answer.headers["State-Age-Ms"]) > 10_000
        told = f"{deployment.name}: Kafka at {deployment.cluster.kafka.bootstrap} {since}"
        assert told in deployment.run("status").output
    finally:
        broker.resume()
    until(lambda: "kafka" not in get(f"http://{api}/readyz"), "the API to hear of Kafka")
    until_equal(lambda: stream.get("/readyz").status, 200, "the stream to go on")
    deployment.send(10)
    deployment.folded(110)


# Ownership of partitions when there are more instances than partitions.


def test_an_instance_without_partitions_is_told_so(servers: LocalCluster) -> None:
    """Else it would never be ready."""
    held: dict[int, Held] = {}
    with ExitStack() as stack:
        for number in range(9):
            told = partial(held.__setitem__, number)
            member = Membership(servers.kafka.bootstrap, "members", str(number), 10_000, told)
            member.start(LISTENING_EVENTS)
            stack.callback(member.stop)
        until(lambda: sorted(map(len, held.values())) == [0, *[1] * 8], "a share each")


# Invalid records, sent to a deployment of its own: no record stops or spoils the rest.

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
    now = now_ms()
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

    until(lambda: "roll back the release" in faults(), "status to say so too")
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


# A build at a rate, which the operator changes, pauses and lifts.

MANY, RATE = 4_000, 400
LOOKED_S = 3
"""Two looks at the rate, and a commit."""


def test_a_build_at_a_rate(deployment: Deployment) -> None:
    deployment.send(MANY)
    deployment.stream(BUILD_RATE=str(RATE))
    until(deployment.position, "the first commit")
    assert deployment.command("throttle", "0") == {
        "service": deployment.name, "rate": 0, "partitions": 1, "dry_run": False,
    }  # fmt: skip
    pause(LOOKED_S)
    paused = deployment.position()
    assert deployment.command("status")["warnings"] == [
        "builds are limited to 0 records a second (`streamstate throttle`)"
    ]
    pause(LOOKED_S)
    assert deployment.position() == paused < MANY
    deployment.command("throttle", "1000000")
    deployment.folded(MANY)
    assert deployment.snapshot().values[0]["#"] == MANY
