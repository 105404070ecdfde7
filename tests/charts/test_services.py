"""The effects of a chart's values, and refused values."""

import base64
import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from devkit.charts.charts import charts
from devkit.charts.files import FOLDER, HELMS, files, links, schema
from devkit.registry import STANDARD, by_name
from streamstate.web.access import internal, keys
from tests.charts.rendering import Object, environment, helm, of_kind, pods, render
from tests.dashboards import DASHBOARDS

SECURED = Path("charts/metrics/ci/01-secured-values.yaml")
EXECUTORS = Path("charts/metrics/ci/02-executors-values.yaml")


def checksum(objects: list[Object]) -> str:
    [stateful] = of_kind(objects, "StatefulSet")
    return str(stateful["spec"]["template"]["metadata"]["annotations"]["checksum/config"])


@pytest.mark.parametrize("path", files())
def test_a_file_is_what_the_source_says(path: str) -> None:
    assert (FOLDER / path).read_text() == files()[path], "run make docs"


@pytest.mark.parametrize("path", links())
def test_a_chart_has_the_library_chart(path: str) -> None:
    assert str((FOLDER / path).readlink()) == links()[path], "run make docs"


@pytest.mark.parametrize("chart", charts())
def test_every_value_is_described_and_no_other_is_taken(chart: str) -> None:
    values = schema(chart)
    Draft202012Validator.check_schema(values)
    for part in (values, *values.get("$defs", {}).values()):
        assert part["additionalProperties"] is False
        for name, value in part["properties"].items():
            assert "description" in value or name in HELMS


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"replcas": 3}, "replcas"),
        ({"replicas": 0}, "replicas"),
        ({"kafka.security": "TLS"}, "security"),
        ({"kafka.security": "SASL_SSL"}, "kafka.username is needed for SASL"),
        ({"kafka": {"security": "SASL_SSL", "mechanism": "AWS_MSK_IAM"}}, "kafka.region is needed for AWS_MSK_IAM"),
        ({"kafka.properties": {"client.rack": ["a"]}}, "client.rack"),
        ({"redis.url": "redis.company:6379"}, "url"),
        ({"settings.DEADLINE_MS": 5}, "DEADLINE_MS"),
        ({"settings.DEADLINE_MS": "soon"}, "DEADLINE_MS"),
        ({"settings.DEADLNE_MS": 500}, "DEADLNE_MS"),
        ({"api.replicas": 2}, "here, set replicas"),
        ({"settings.KAFKA_PASSWORD": "secret"}, "KAFKA_PASSWORD"),
        ({"settings.ACCESS": "off"}, "ACCESS"),
        ({"access.enabeld": False}, "enabeld"),
        ({"stream.slots": 65}, "slots"),
        ({"api.workers": 65}, "workers"),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_by_name(value: dict[str, object], reason: str) -> None:
    [(name, given)] = value.items()
    rendered = helm("template", "metrics", "charts/metrics", "--set-json", f"{name}={json.dumps(given)}")
    assert rendered.returncode != 0
    assert reason in rendered.stderr


def test_a_setting_that_changes_rolls_the_pods() -> None:
    assert checksum(render("metrics")) == checksum(render("metrics", given={"replicas": 2}))
    assert checksum(render("metrics")) != checksum(render("metrics", given={"settings.DEADLINE_MS": 500}))


def test_a_setting_reaches_the_process_as_it_was_given(tmp_path: Path) -> None:
    """Helm reads every number of a file as a float."""
    values = tmp_path / "values.yaml"
    values.write_text("settings: {WINDOW: 2000000, REDIS_TIMEOUT_S: 0.5, SPARK: {spark.ui.enabled: 'true'}}")
    given = environment(render("recommendations", values), "stream")
    assert given["STREAMSTATE_WINDOW"] == "2000000"
    assert given["STREAMSTATE_REDIS_TIMEOUT_S"] == "0.5"
    assert json.loads(given["STREAMSTATE_SPARK"]) == {"spark.ui.enabled": "true"}


def test_kafka_by_credentials_of_aws_and_with_further_properties(tmp_path: Path) -> None:
    (values := tmp_path / "values.yaml").write_text(
        """
        kafka:
          bootstrap: b-1.profiles.kafka.eu-central-1.amazonaws.com:9098
          security: SASL_SSL
          mechanism: AWS_MSK_IAM
          region: eu-central-1
          properties: {client.rack: euc1-az1, fetch.max.bytes: 104857600}
          sourceProperties: {client.rack: euc1-az1}
        networkPolicy: {enabled: true}
        """
    )
    objects = render("metrics", values)
    for container in ("stream", "api"):
        given = environment(objects, container)
        assert given["STREAMSTATE_KAFKA_REGION"] == "eu-central-1"
        assert json.loads(given["STREAMSTATE_KAFKA_PROPERTIES"]) == {
            "client.rack": "euc1-az1", "fetch.max.bytes": 104857600
        }  # fmt: skip
        assert json.loads(given["STREAMSTATE_KAFKA_SOURCE_PROPERTIES"]) == {"client.rack": "euc1-az1"}
        assert not {"STREAMSTATE_KAFKA_USERNAME", "STREAMSTATE_KAFKA_PASSWORD"} & given.keys()
    [policy] = of_kind(objects, "NetworkPolicy")
    assert "443" in json.dumps(policy["spec"]["egress"])


def test_spark_properties_of_a_user_are_added_to_those_of_the_executors() -> None:
    given = {"settings": {"SPARK": {"spark.task.maxFailures": "2"}}}
    properties = json.loads(environment(render("metrics", EXECUTORS, given), "stream")["STREAMSTATE_SPARK"])
    assert (properties["spark.task.maxFailures"], properties["spark.executor.cores"]) == ("2", "2")


def test_two_releases_share_nothing() -> None:
    """Unless values give a common name: the token by which a gateway calls both services."""
    first = render("metrics", release="a")
    given = {"topics": {"listening-events": "b"}, "access.internalSecret.name": "b-internal"}
    other = render("metrics", given=given, release="b")
    names = [{(each["kind"], each["metadata"]["name"]) for each in objects} for objects in (first, other)]
    assert names[0].isdisjoint(names[1])
    selectors = [[each["spec"]["selector"] for each in of_kind(objects, "Service")] for objects in (first, other)]
    for metadata, _ in pods(first):
        assert not any(selector.items() <= metadata["labels"].items() for selector in selectors[1])
    assert [environment(objects, "stream")["STREAMSTATE_NAME"] for objects in (first, other)] == ["a", "b"]


FILES = {
    "KAFKA_PASSWORD": "kafka-password/password",
    "KAFKA_CA": "kafka-ca/ca.crt",
    "REDIS_PASSWORD": "redis-password/password",
    "REDIS_SENTINEL_PASSWORD": "redis-sentinel-password/password",
    "REDIS_CA": "redis-ca/ca.crt",
    "REDIS_KEY": "redis/tls.key",
    "REGISTRY_PASSWORD": "registry-password/password",
    "REGISTRY_CA": "registry-ca/ca.crt",
    "TLS_KEY": "tls/tls.key",
    "TLS_CLIENT_CA": "tls-client-ca/ca.crt",
    "INSTANCES_CA": "instances-ca/ca.crt",
    "INSTANCES_KEY": "instances/tls.key",
}
"""Settings that are files, where the Secrets are mounted."""


def test_secrets_are_mounted_as_files_where_the_settings_say() -> None:
    objects = render("metrics", SECURED)
    for container in ("stream", "api", "command", "ask"):
        variables = environment(objects, container)
        mounted = mounts(objects, container)
        for name, path in FILES.items():
            assert variables[f"STREAMSTATE_{name}"] == f"/etc/streamstate/{path}"
            assert f"/etc/streamstate/{path.partition('/')[0]}" in mounted
    assert of_kind(objects, "Secret") == []


def mounts(objects: list[Object], container: str) -> set[str]:
    """Where the container of this name has something mounted."""
    [item] = [item for _, spec in pods(objects) for item in spec["containers"] if item["name"] == container]
    return {mount["mountPath"] for mount in item["volumeMounts"]}


def test_no_value_takes_a_password() -> None:
    """A value ends in a ConfigMap, or on a command line."""
    for chart, value, url in (
        ("metrics", "redis.url", "redis://user:word@redis:6379/0"),
        ("metrics", "redis.url", "redis://redis:6379/0?password=word"),
        ("metrics", "redis.url", "redis+sentinel://:word@redis:26379/profiles"),
        ("metrics", "registry.url", "https://user:word@registry:8081"),
        ("metrics", "kafka.tokenUrl", "https://user:word@issuer/token"),
        ("gateway", "access.limitsRedis.url", "redis://:word@redis"),
    ):
        refused = helm("template", chart, f"charts/{chart}", "--set-json", f"{value}={json.dumps(url)}")
        assert refused.returncode != 0
        assert value.rpartition(".")[2] in refused.stderr


def test_executors_have_the_secret_of_their_driver_as_a_file() -> None:
    objects = render("metrics", EXECUTORS)
    [secret] = [item for item in of_kind(objects, "Secret") if item["metadata"]["name"] == "metrics-spark"]
    assert len(base64.b64decode(secret["data"]["secret"])) == 48
    assert environment(objects, "stream")["STREAMSTATE_SPARK_SECRET"] == "/etc/streamstate/spark/secret"
    for container in ("stream", "executor"):
        assert "/etc/streamstate/spark" in mounts(objects, container)
        assert secrets_mounted(objects, container)["metrics-spark"] == [{"key": "secret", "path": "secret"}]
    assert "/etc/streamstate/spark" not in mounts(objects, "api")
    given = render("metrics", EXECUTORS, {"stream.executors.secret.name": "company"})
    assert "company" in secrets_mounted(given, "executor")
    assert "metrics-spark" not in [item["metadata"]["name"] for item in of_kind(given, "Secret")]


def secrets_mounted(objects: list[Object], container: str) -> dict[str, list[dict[str, str]]]:
    """The items of each Secret that the container of this name has as files, by the Secret's name."""
    [(spec, mounts)] = [
        (spec, {mount["name"] for mount in item["volumeMounts"]})
        for _, spec in pods(objects)
        for item in spec["containers"]
        if item["name"] == container
    ]
    secrets = [volume["secret"] for volume in spec["volumes"] if "secret" in volume and volume["name"] in mounts]
    return {secret["secretName"]: secret.get("items", []) for secret in secrets}


def test_access_is_on_unless_it_is_switched_off() -> None:
    for chart in ("gateway", "metrics", "recommendations"):
        variables = environment(render(chart), "api")
        assert variables["STREAMSTATE_ACCESS"] == "required"
        assert variables["STREAMSTATE_INTERNAL_TOKENS"] == "/etc/streamstate/internal/tokens"
        opened = render(chart, given={"access.enabled": False})
        assert environment(opened, "api")["STREAMSTATE_ACCESS"] == "off"
        assert of_kind(opened, "Secret") == []


def test_a_generated_key_opens_the_gateway_and_only_its_hash_is_mounted() -> None:
    objects = render("gateway", release="eu")
    [secret] = [item for item in of_kind(objects, "Secret") if item["metadata"]["name"] == "eu-keys"]
    data = {name: base64.b64decode(value) for name, value in secret["data"].items()}
    found = keys.find(keys.parse(data["keys"]), data["admin-key"].decode())
    assert found is not None
    assert (found.name, found.scopes) == ("admin", ("admin",))
    assert secrets_mounted(objects, "api")["eu-keys"] == [{"key": "keys", "path": "keys"}]
    assert environment(objects, "api")["STREAMSTATE_ACCESS_KEYS"] == "/etc/streamstate/keys/keys"


def test_the_token_between_gateway_and_instances_is_for_those_who_ask() -> None:
    for chart in ("gateway", "metrics", "recommendations"):
        objects = render(chart)
        [secret] = [item for item in of_kind(objects, "Secret") if item["metadata"]["name"] == "streamstate-internal"]
        assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        [token] = internal.parse(base64.b64decode(secret["data"]["tokens"]))
        assert token.decode() not in str([item for item in objects if item["kind"] != "Secret"])
        for container in ("api", "ask"):
            mounted = secrets_mounted(objects, container)
            assert mounted["streamstate-internal"] == [{"key": "tokens", "path": "tokens"}]
    assert "streamstate-internal" not in secrets_mounted(render("metrics"), "stream")


def test_given_secrets_are_used_and_none_is_made() -> None:
    objects = render("gateway", Path("charts/gateway/ci/01-everything-values.yaml"))
    assert of_kind(objects, "Secret") == []
    assert secrets_mounted(objects, "api") == {
        "company-internal": [{"key": "tokens", "path": "tokens"}],
        "callers": [{"key": "profiles", "path": "keys"}],
        **{name: [] for name in ("redis", "redis-ca", "profiles-tls", "instances-ca", "instances-tls")},
    }
    variables = environment(objects, "api")
    assert variables["STREAMSTATE_LIMITS_REDIS"] == "rediss://redis:6379/0"
    assert variables["STREAMSTATE_REDIS_PASSWORD"] == "/etc/streamstate/redis-password/word"


def test_the_gateway_may_watch_endpoints_and_nothing_else() -> None:
    objects = render("gateway")
    [role] = of_kind(objects, "Role")
    assert role["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}
    ]
    variables = environment(objects, "api")
    assert json.loads(variables["STREAMSTATE_SERVICES"]) == {name: f"{name}-pods" for name in by_name(STANDARD)}


def test_alerts_lead_to_the_runbooks_that_the_values_name() -> None:
    [rule] = of_kind(render("monitoring", Path("charts/monitoring/ci/01-operator-values.yaml")), "PrometheusRule")
    written = Path("charts/monitoring/rules.yaml").read_text()
    assert rule["spec"] == yaml.safe_load(written.replace("docs/runbooks.md", "https://docs.company/runbooks"))
    assert of_kind(render("monitoring"), "PrometheusRule") == []


def test_dashboards_are_in_the_config_map_that_grafana_selects() -> None:
    [config] = of_kind(render("monitoring"), "ConfigMap")
    assert config["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert {name: json.loads(text) for name, text in config["data"].items()} == {
        f"{uid}.json": dashboard for uid, dashboard in DASHBOARDS.items()
    }
    assert of_kind(render("monitoring", given={"dashboards.enabled": False}), "ConfigMap") == []


def test_topics_are_what_the_values_say() -> None:
    kept = [{"topic": "bookings", "key": "long", "value": "json", "range": {"retention_ms": 604_800_000}}]
    variables = environment(render("topics", given={"kept": kept}), "stream")
    assert json.loads(variables["STREAMSTATE_KEPT"]) == kept
    assert helm("template", "topics", "charts/topics", "--set-json", 'kept=[{"topic": "bookings"}]').returncode != 0


def test_a_command_runs_when_it_is_told_to_with_the_settings_of_the_service() -> None:
    assert of_kind(render("metrics"), "CronJob") == []
    for schedule, suspended in ("", True), ("@daily", False):
        given = {"job.command": ["verify"], "job.schedule": schedule}
        objects = render("metrics", given=given)
        [job] = of_kind(objects, "CronJob")
        assert job["spec"]["suspend"] is suspended
        [command] = [item for _, spec in pods(objects) for item in spec["containers"] if item["name"] == "command"]
        assert command["command"] == ["streamstate", "verify"]
        assert environment(objects, "command")["STREAMSTATE_NAME"] == "metrics"


def test_the_answers_for_all_keys_are_written_at_a_time_that_is_set() -> None:
    given = {"unload.schedule": "@hourly", "unload.views": ["metrics"], "unload.to": "s3://bucket/answers"}
    objects = render("metrics", given=given)
    [job] = of_kind(objects, "CronJob")
    assert (job["metadata"]["name"], job["spec"]["schedule"], job["spec"]["suspend"]) == (
        "metrics-unload",
        "@hourly",
        False,
    )
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [redis], [unload] = spec["initContainers"], spec["containers"]
    assert redis["image"] == "redis:8"
    assert unload["command"][:4] == ["streamstate", "unload", "metrics", "metrics"]
    assert unload["command"][4:] == ["--if-live", "--to", "s3://bucket/answers"]
    scratch = {"name": "scratch", "mountPath": "/scratch"}
    assert scratch in redis["volumeMounts"]
    assert scratch in unload["volumeMounts"]
    assert environment(objects, "unload")["TMPDIR"] == "/scratch"
    missing = helm("template", "metrics", "charts/metrics", "--set", "unload.schedule=@hourly")
    assert missing.returncode != 0
    assert "unload.schedule needs unload.views and unload.to" in missing.stderr


def test_a_release_beside_another_is_labelled_for_the_gateway() -> None:
    for settings, label in (({"RELEASE_OF": "metrics"}, "metrics"), ({}, None)):
        objects = render("metrics", given={"settings": settings}, release="metrics-2")
        [headless] = [of for of in objects if of["kind"] == "Service" and of["metadata"]["name"] == "metrics-2-pods"]
        assert headless["metadata"]["labels"].get("streamstate/release-of") == label
        [configured] = [of for of in objects if of["kind"] == "ConfigMap" and of["metadata"]["name"] == "metrics-2"]
        assert configured["data"].get("STREAMSTATE_RELEASE_OF") == label
