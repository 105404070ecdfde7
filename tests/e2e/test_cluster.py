"""A deployment survives operations of the cluster. The tests build on one another, in this order."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from urllib3.exceptions import HTTPError

from devkit.registry import STANDARD, by_name
from tests.e2e import feed
from tests.e2e.cluster import ARCHIVE, GATEWAY, INFRA, REDIS, Api, Namespace, Reads, together
from tests.e2e.conftest import EU, SMALL, TOOLS, TRANSPORT, Installation, plays, values_of
from tests.e2e.images import image
from tests.waiting import until, until_equal

EVENTS = 4_000
CHANGED = {"COMMIT_RECORDS": 1_000}
LIMITS = f"""
from redis import Redis
client = Redis.from_url("{REDIS}", ssl_ca_certs="/infra/ca.crt")
print(len(list(client.scan_iter("gateway:limit:*"))))
"""
"""Prints the number of limits in Redis: the callers of the last second."""


def assert_profiles(deployment: Installation) -> None:
    """Each is as counted here; a name may be missing for as long as the gateway remembers that it was."""
    for user in range(1, feed.USERS + 1):
        expected = feed.profile(user, deployment.sent) | {"warnings": []}
        read = partial(deployment.gateway.get, f"/v1/users/{user}")
        with suppress(AssertionError):
            until(lambda: read()[1].items() >= expected.items(), "the names")  # noqa: B023, called here
        status, profile = read()
        assert status == 200
        assert {name: profile[name] for name in expected} == expected


def owners(instance: Api) -> dict[str, int]:
    """How many partitions each instance has."""
    _, owner_map = instance.get("/processors")
    return {each["host"].split(".")[0]: len(each["partitions"]) for each in owner_map["instances"]}


def pods_of(namespace: Namespace, release: str) -> set[str]:
    """Their uids."""
    selector = f"app.kubernetes.io/instance={release}"
    uids = ("--output", "jsonpath={.items[*].metadata.uid}")
    return set(namespace.kubectl("get", "pods", "--selector", selector, *uids).split())


def test_profiles_are_what_the_events_say(deployment: Installation) -> None:
    deployment.feed(EVENTS)
    deployment.settle()
    assert_profiles(deployment)


def test_each_instance_owns_its_share_and_is_asked_through_its_port_forward(deployment: Installation) -> None:
    with deployment.namespace.forwarded("pod/metrics-0") as instance:
        until_equal(lambda: owners(instance), {"metrics-0": 4, "metrics-1": 4}, "the partitions to be shared out")
    for user in range(1, feed.USERS + 1):
        assert deployment.gateway.get(f"/v1/users/{user}/metrics")[0] == 200


def test_limits_are_shared_through_redis(deployment: Installation) -> None:
    with Reads(deployment.gateway, deployment.sent).going_on() as reads:
        said = deployment.namespace.operate("python", "-c", LIMITS)
    assert int(said) > 0
    assert reads.failed == []


def test_no_read_fails_when_a_pod_is_killed(deployment: Installation) -> None:
    with Reads(deployment.gateway, deployment.sent).going_on() as reads:
        deployment.namespace.kubectl("delete", "pod", "metrics-0", "--grace-period=0", "--force")
        deployment.feed(EVENTS)
        deployment.settle()
        deployment.namespace.kubectl("rollout", "status", "statefulset/metrics", "--timeout=180s")
    assert reads.failed == []
    assert reads.count > 100
    assert_profiles(deployment)


def test_no_read_fails_when_a_setting_changes(deployment: Installation) -> None:
    """Every pod is replaced, one after the other, while events come and profiles are read."""
    before = pods_of(deployment.namespace, "metrics")
    with Reads(deployment.gateway, deployment.sent).going_on() as reads:
        deployment.namespace.upgrade("metrics", "metrics", values_of("metrics", replicas=2, settings=CHANGED))
        deployment.feed(EVENTS)
        deployment.settle()
    assert reads.failed == []
    assert before.isdisjoint(pods_of(deployment.namespace, "metrics"))
    assert_profiles(deployment)


def test_no_read_fails_when_it_grows(deployment: Installation) -> None:
    with Reads(deployment.gateway, deployment.sent).going_on() as reads:
        deployment.namespace.upgrade("metrics", "metrics", values_of("metrics", replicas=3, settings=CHANGED))
        deployment.feed(EVENTS)
        deployment.settle()
    assert reads.failed == []
    with deployment.namespace.forwarded("pod/metrics-0") as instance:
        until_equal(lambda: sorted(owners(instance).values()), [2, 3, 3], "each of three to have its share")
    assert_profiles(deployment)


def test_an_instance_that_goes_hands_over_at_once(deployment: Installation) -> None:
    with Reads(deployment.gateway, deployment.sent).going_on() as reads:
        deployment.namespace.kubectl("scale", "statefulset/metrics", "--replicas=1")
        with deployment.namespace.forwarded("pod/metrics-0") as instance:
            until(lambda: sum(owners(instance).values()) == owners(instance).get("metrics-0", 0), "one to own all")
        deployment.feed(EVENTS)
        deployment.settle()
    assert reads.failed == []
    assert_profiles(deployment)


def test_every_state_equals_a_recount(deployment: Installation) -> None:
    said = deployment.namespace.operate("streamstate", "verify")
    assert said.count("no difference") == len(STANDARD), said


def test_helm_test_gets_the_known_answer(deployment: Installation) -> None:
    known = json.dumps(feed.profile(7, deployment.sent)["eventCount"])
    test = {"path": "/v1/users/7/metrics", "contains": f'"eventCount":{known}'}
    deployment.namespace.upgrade("metrics", "metrics", values_of("metrics", settings=CHANGED, test=test))
    together(partial(deployment.namespace.helm, "test"), [*by_name(STANDARD), GATEWAY], at_once=4)


def test_no_read_fails_when_a_release_is_promoted_and_taken_back(deployment: Installation) -> None:
    """A release beside the first, with a state of its own, found by the gateway through the label of its Service."""

    def streamstate(command: str, *arguments: str) -> None:
        deployment.namespace.operate("streamstate", command, "metrics", *arguments)

    def live(release: str) -> bool:
        _, state = deployment.gateway.get("/v1/system")
        return any(each["release"] == release and each["live"] for each in state["services"])

    streamstate("stage", "--name", "metrics-2")
    deployment.namespace.upgrade("metrics-2", "metrics", values_of("metrics", settings={"RELEASE_OF": "metrics"}))
    with Reads(deployment.gateway, deployment.sent).going_on() as reads:
        streamstate("wait", "--timeout", "100")
        for command, release in (("promote", "metrics-2"), ("back", "metrics"), ("promote", "metrics-2")):
            streamstate(command, "--without-gateway")
            until(partial(live, release), f"{release} to answer")
            deployment.feed(EVENTS // 4)
            deployment.settle()
    assert reads.failed == []
    assert_profiles(deployment)
    streamstate("back", "--without-gateway")
    until(partial(live, "metrics"), "metrics to answer")
    deployment.namespace.helm("uninstall", "metrics-2", "--wait")
    streamstate("drop", "--yes")
    assert_profiles(deployment)


def install_eu(namespace: Namespace, **more: Any) -> None:
    """Another release of the chart, which folds in an executor: a pod that its stream asked the API server for."""
    # By itself, Spark asks for a whole core for each executor.
    settings = {"SPARK": {"spark.kubernetes.executor.request.cores": "20m"}, **more.pop("settings", {})}
    values = values_of("metrics", topics={"listening-events": EU}, settings=settings, **more)
    values["stream"]["executors"] = {"count": 1}
    namespace.upgrade("metrics-eu", "metrics", values)
    assert "metrics-eu-0-exec-" in namespace.kubectl("get", "pods", "--output", "name")


def archive_eu(deployment: Installation, records: int) -> None:
    """Install an archiver of the topic, and wait until it has so many records, which Kafka deletes then."""
    kubectl = deployment.namespace.kubectl
    archive = {"topics": [EU], "volume": {"size": "1Gi"}}
    of = {"image": image("archive-api"), "archive": archive, "settings": {"ARCHIVE_SECONDS": 1}, **SMALL}
    deployment.namespace.upgrade(ARCHIVE, ARCHIVE, of | {"kafka": TRANSPORT["kafka"]})

    def archived() -> bool:
        said = kubectl("exec", f"{ARCHIVE}-0", "--", "streamstate", "archive", "list", "--json")
        return bool(sum(partition["end"] for partition in json.loads(said)) == records)

    until(archived, "the archive to have the records")
    deployment.namespace.manage_topics("cut", EU)


def test_executors_build_a_release_from_an_archive(deployment: Installation) -> None:
    """Kafka has deleted the first half of the records, and the second comes later."""
    deployment.namespace.send(EU, 0, 400)
    archive_eu(deployment, 400)
    volume = {"name": "archive", "persistentVolumeClaim": {"claimName": ARCHIVE}}
    mount = {"name": "archive", "mountPath": "/archive", "readOnly": True}
    settings = {"ARCHIVE": "/archive"}
    install_eu(deployment.namespace, settings=settings, extraVolumes=[volume], extraVolumeMounts=[mount])
    with deployment.namespace.forwarded("service/metrics-eu") as instance:
        until_equal(lambda: plays(instance), 400, "the archived events to be counted")
        deployment.namespace.send(EU, 400, 400)
        until_equal(lambda: plays(instance), 800, "the other release to count its events")
        assert instance.get("/processors")[1]["service"] == "metrics-eu"
    log = deployment.namespace.kubectl("logs", "metrics-eu-0", "--container", "stream", "--tail=-1")
    assert "the archive is folded" in log
    assert_profiles(deployment)


def test_two_namespaces_share_nothing(deployment: Installation, tmp_path: Path) -> None:
    """The releases have the same names, and objects of the whole cluster for their executors."""
    first, second = deployment.namespace, Namespace("streamstate-test-2", tmp_path / "ca")
    policies = ("get", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--output", "name")
    before = first.kubectl(*policies)
    second.create()
    second.upgrade(INFRA, INFRA, deployment.infra, "--wait-for-jobs")
    second.start_operator(TOOLS)
    install_eu(second)
    second.send(EU, 0, 400)
    with first.forwarded("service/metrics-eu") as one, second.forwarded("service/metrics-eu") as other:
        until_equal(lambda: plays(other), 400, "the other namespace to count its events")
        assert plays(one) == 800
        assert replace(one, headers=other.headers).get("/processors")[0] == 401
        with pytest.raises(HTTPError, match="CERTIFICATE_VERIFY_FAILED"):
            replace(one, tls=other.tls).get("/processors")
        second.uninstall()
        assert plays(one) == 800
    assert first.kubectl(*policies) == before
    assert_profiles(deployment)


SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod(image: str, labels: Mapping[str, str], further: Mapping[str, Any] | None = None, **container: Any) -> str:
    """A restricted pod, as JSON, with `further` members of its specification and of its container."""
    spec = {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "executor", "image": image, "securityContext": SECURITY, **container}],
        **(further or {}),
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "made", "labels": labels}, "spec": spec})


def test_a_driver_may_touch_its_executors_only(deployment: Installation) -> None:
    kubectl = deployment.namespace.kubectl
    driver = f"--as=system:serviceaccount:{deployment.namespace.name}:metrics-eu"
    executor = {"spark-role": "executor", "app.kubernetes.io/instance": "metrics-eu"}
    image = values_of("metrics")["stream"]["image"]
    for name in ("metrics-0", "metrics-eu-0"):
        with pytest.raises(AssertionError, match="its own executors only"):
            kubectl("delete", "pod", name, driver)
    for labels in ({}, {"spark-role": "executor"}, {**executor, "app.kubernetes.io/instance": "metrics"}):
        with pytest.raises(AssertionError, match="its own executors only"):
            kubectl("create", "--filename", "-", driver, stdin=pod(image, labels))
    with pytest.raises(AssertionError, match="executors have the image of the stream"):
        kubectl("create", "--filename", "-", driver, stdin=pod(TOOLS, executor))
    token = {"serviceAccountToken": {"path": "token"}}
    for further, refusal in (
        ({"initContainers": [{"name": "first", "image": TOOLS, "securityContext": SECURITY}]}, "no other containers"),
        ({"automountServiceAccountToken": True}, "and no token"),
        ({"serviceAccountName": "metrics-eu"}, "the default ServiceAccount"),
        ({"hostNetwork": True}, "share nothing with their node|violates PodSecurity"),
        ({"nodeName": "somewhere"}, "are scheduled"),
        ({"volumes": [{"name": "tmp", "projected": {"sources": [token]}}]}, "the volumes of the stream's values"),
        ({"volumes": [{"name": "tmp", "hostPath": {"path": "/"}}]}, "the volumes of the stream|violates PodSecurity"),
        (
            {"volumes": [{"name": "spark-secret", "secret": {"secretName": "gateway-keys"}}]},
            "the volumes of the stream",
        ),
    ):
        with pytest.raises(AssertionError, match=refusal):
            kubectl("create", "--filename", "-", driver, stdin=pod(image, executor, further))
    secret = {"name": "gateway-keys", "key": "admin-key"}
    for reading in (
        {"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": secret}}]},
        {"envFrom": [{"secretRef": {"name": "gateway-keys"}}]},
    ):
        with pytest.raises(AssertionError, match="read the Secrets of the stream's values"):
            kubectl("create", "--filename", "-", driver, stdin=pod(image, executor, **reading))
    with pytest.raises(AssertionError, match="cannot create resource"):
        kubectl("create", "configmap", "made", driver)
    kubectl("create", "--filename", "-", driver, stdin=pod(image, executor))
    kubectl("delete", "pod", "made", "--now", driver)
