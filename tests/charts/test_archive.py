"""The archiver's chart: a volume or a bucket, and the nightly compaction."""

import json
from pathlib import Path

from tests.charts.rendering import environment, of_kind, pods, render

BUCKET = Path("charts/archive/ci/01-bucket-values.yaml")
TOPICS = {"archive.topics": ["plays"]}


def test_a_folder_is_a_volume_that_outlives_the_release() -> None:
    objects = render("archive", given=TOPICS)
    [claim] = of_kind(objects, "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for container in ("archiver", "command"):
        assert environment(objects, container)["STREAMSTATE_ARCHIVE"] == "/archive"
    for _, spec in pods(objects):
        assert {"name": "archive", "mountPath": "/archive"} in spec["containers"][0]["volumeMounts"]
        assert {"name": "archive", "persistentVolumeClaim": {"claimName": "archive"}} in spec["volumes"]


def test_a_claim_that_exists_is_used() -> None:
    objects = render("archive", given={**TOPICS, "archive.volume.claim": "history"})
    assert of_kind(objects, "PersistentVolumeClaim") == []
    volumes = [volume for _, spec in pods(objects) for volume in spec["volumes"] if volume["name"] == "archive"]
    assert volumes == 2 * [{"name": "archive", "persistentVolumeClaim": {"claimName": "history"}}]


def test_a_bucket_needs_no_volume_and_its_server_is_reached() -> None:
    objects = render("archive", BUCKET)
    assert of_kind(objects, "PersistentVolumeClaim") == []
    given = environment(objects, "archiver")
    assert given["AWS_SHARED_CREDENTIALS_FILE"] == "/etc/streamstate/archive/credentials"
    assert json.loads(given["STREAMSTATE_ARCHIVE_TOPICS"]) == ["listening-events", "metrics-dlq"]
    [policy] = of_kind(objects, "NetworkPolicy")
    ports = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert {9000, 9093, 443} <= ports
    assert [rule["ports"] for rule in policy["spec"]["ingress"]] == [[{"port": 8081, "protocol": "TCP"}]]


def test_files_are_compacted_nightly_unless_the_values_say_otherwise() -> None:
    [job] = of_kind(render("archive", given=TOPICS), "CronJob")
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert (job["spec"]["schedule"], container["command"]) == ("0 3 * * *", ["streamstate", "archive", "compact"])
    assert of_kind(render("archive", given={**TOPICS, "job.command": []}), "CronJob") == []
