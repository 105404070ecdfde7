"""A state built from other topics or folds: the stream refuses to continue, with the reason."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from math import inf
from pathlib import Path

import urllib3
from confluent_kafka.admin import NewTopic

from services.topics.settings import KeptTopic, WindowIndex
from streamstate.state.redis_connections import connect
from tests.deployment import USER, Deployment, Stream
from tests.serving import sample
from tests.waiting import until


def test_what_retention_deletes_is_told_before_and_after(deployment: Deployment) -> None:
    """Nothing is refused: reads stay right, but the state cannot be built anew or verified any more."""
    deployment.configure("retention.ms", 90_000_000)
    stream = deployment.build()

    def left_s() -> float | None:
        return sample(str(stream.get("/metrics").data.decode()), "streamstate_history_seconds", topic=deployment.topic)

    [warning] = deployment.command("status")["warnings"]
    assert f"may delete the first record of {deployment.topic} in 1 day, 0:5" in warning
    until(lambda: 89_000 < (left_s() or 0) <= 90_000, 30, "the stream to tell its history")
    deployment.configure("retention.ms", -1)
    until(lambda: deployment.command("status")["warnings"] == [], 30, "no limit")
    until(lambda: left_s() == inf, 30, "no limit")
    deployment.configure("retention.ms", 90_000_000)
    deployment.delete_records(60)
    until(lambda: left_s() == 0, 30, "the end of the history")
    status = deployment.command("status")
    assert "has deleted the first records" in status["warnings"][0]
    assert status["faults"] == []


def test_a_topic_that_is_to_be_written_and_is_missing_is_named_before_a_record_needs_it(deployment: Deployment) -> None:
    """Else one bad record would block the stream for ever."""
    dead_letters = f"{deployment.name}-dlq"
    deployment.admin.delete_topics([dead_letters])[dead_letters].result()
    deployment.send(100)
    stream = deployment.stream()
    advice = f"the topic {dead_letters} cannot be read"
    stream.refused(advice)
    until(lambda: any(advice in fault for fault in deployment.command("status")["faults"]), 30, "status to name it")
    deployment.admin.create_topics([NewTopic(dead_letters, 1, 1)])[dead_letters].result()
    deployment.folded(100)


def test_instances_that_keep_the_state_in_two_places_are_refused(deployment: Deployment) -> None:
    """Each would answer from a part, and call itself ready."""
    stream = deployment.build()
    elsewhere = f"redis://127.0.0.1:{deployment.cluster.redis.port}/9"
    with connect(elsewhere, 5.0) as client:
        try:
            other = deployment.stream(INSTANCE="stream-1", REDIS=elsewhere)
            other.refused("stream-0 of the same consumer group does not write to this Redis", "STREAMSTATE_REDIS")
            stream.refused("stream-1 of the same consumer group does not write to this Redis")
            assert "stream-1 of the same" in str(deployment.command("status")["faults"])
        finally:
            client.flushdb()


def test_a_state_is_not_built_from_a_topic_without_its_beginning_unless_that_is_allowed(deployment: Deployment) -> None:
    """Otherwise the stream would become ready without the counts of the deleted records."""
    deployment.build().stop()
    deployment.delete_records(60)
    deployment.empty()

    refusing = deployment.stream()
    way_out = f"streamstate allow metrics {deployment.topic} --reason TEXT`"
    refusing.refused(f"{deployment.topic}:0 begins at offset 60", way_out)
    assert deployment.position() == 0
    path, address = f"/v1/users/{USER}/metrics", deployment.api()
    answer = urllib3.request("GET", f"http://{address}{path}")
    assert answer.status == 503
    assert "begins at offset 60" in answer.json()["detail"]
    assert way_out in answer.json()["detail"]

    [printed] = re.findall(f"`(.*{way_out[:-1]})`", answer.json()["detail"])
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    allowed = subprocess.check_output(printed.replace("TEXT", "retention --json"), shell=True, env=environment)
    assert json.loads(allowed)["before"] == {"0": 60}
    deployment.folded(100)
    assert deployment.command("status")["allowances"] == [
        f"{deployment.topic}:0 may lack the records before 60: retention"
    ]
    assert "cannot be read again" in deployment.command("verify")["faults"][0]
    assert deployment.snapshot().values[0]["#"] == 40
    assert sample(refusing.get("/metrics").data.decode(), "streamstate_stream_refused") == 0
    answer = urllib3.request("GET", f"http://{address}{path}")
    assert (answer.status, answer.json()["eventCount"]) == (200, 40)
    assert answer.headers["State-Begin"] == f"{deployment.topic}:0=60"
    metrics = urllib3.request("GET", f"http://{address}/metrics").data.decode()
    assert sample(metrics, "streamstate_begin_offset", topic=deployment.topic, partition="0") == 60


def test_a_release_that_folds_otherwise_is_refused_and_the_earlier_one_goes_on(deployment: Deployment) -> None:
    """Otherwise windows of two advances would be mixed."""

    def release(advance_ms: int) -> Stream:
        index = WindowIndex(field="amount", size_ms=3_600_000, advance_ms=advance_ms, retention_ms=7_200_000)
        kept = KeptTopic(topic=deployment.topic, key="long", value="json", latest=False, windows=index)
        return deployment.stream("topics", KEPT=f"[{kept.model_dump_json()}]")

    put = partial(deployment.put, value=b'{"amount": 1}')
    put(*[1_750_000_000_000] * 6)
    earlier = release(0)
    deployment.folded(6)
    earlier.stop()
    put(1_750_000_000_000)
    later = release(1_800_000)
    later.refused("was made by another fold", "1800000", "STREAMSTATE_NAME")
    assert deployment.position() == 6
    later.stop()
    release(0)
    deployment.folded(7)
