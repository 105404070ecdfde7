"""A real Prometheus scrapes the ring: every panel has data, and every rule can be evaluated."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml
from typer.testing import CliRunner

from devkit.cluster.local_cluster import answers
from devkit.servers.child_process import LOCALHOST, Child, free_port
from streamstate.cli.main import app
from tests.dashboards import DASHBOARDS, metrics_of
from tests.integration.driving import Driving
from tests.waiting import PATIENCE_S, REQUEST_S, until

RULES = Path("charts/monitoring/rules.yaml").resolve()
RATE_INTERVAL = "10s"
EMPTY = {
    "Alerts that fire": "nothing is wrong for as long as an alert waits",
    "Reads that fail or are refused": "every read is answered",
    "Looks at files of keys that cannot be used, in an hour": "every file can be used",
    "Counted by the folds in an hour": "no record came too late for its window",
}
"""Why a panel may have no data."""

QUERIES = [
    (panel["title"], target["expr"])
    for dashboard in DASHBOARDS.values()
    for panel in dashboard["panels"]
    for target in panel["targets"]
]


class Prometheus:
    """A Prometheus that scrapes `targets` every second, with the project's rules."""

    def __init__(self, home: Path, targets: Iterable[str]) -> None:
        address = f"{LOCALHOST}:{free_port()}"
        self._url = f"http://{address}"
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "ring", "static_configs": [{"targets": list(targets)}]}],
        }
        path = home / "prometheus.yml"
        path.write_text(yaml.safe_dump(configuration))
        flags = {"config.file": path, "storage.tsdb.path": home / "data", "web.listen-address": address}
        argv = ["prometheus", *(f"--{name}={value}" for name, value in flags.items())]
        self._child = Child("Prometheus", argv, home / "prometheus.log")

    def start(self) -> None:
        self._child.start()
        self._child.wait_until(lambda: answers(f"{self._url}/-/ready"), timeout=PATIENCE_S)

    def stop(self) -> None:
        self._child.stop()

    def api(self, path: str, **fields: str) -> Any:
        answer = urllib3.request("GET", f"{self._url}/api/v1/{path}", fields=fields, timeout=REQUEST_S).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def services(self, query: str) -> set[str]:
        """The label `service` of each series that `query` has now."""
        return {series["metric"].get("service", "") for series in self.api("query", query=query)["result"]}

    def has_data(self, query: str) -> bool:
        """Whether `query` has a number now."""
        return any(series["value"][1] != "NaN" for series in self.api("query", query=query)["result"])

    def rules(self) -> dict[str, Any]:
        return {rule["name"]: rule for group in self.api("rules")["groups"] for rule in group["rules"]}


@pytest.fixture(scope="module")
def prometheus(driving: Driving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    cluster = driving.cluster
    apis = [address for addresses in cluster.addresses.values() for address in addresses]
    gateway = cluster.url.removeprefix("http://")
    saved = CliRunner().invoke(app, ["backup", str(tmp_path_factory.mktemp("backups"))], env=driving.environment())
    assert saved.exit_code == 0, saved.output
    home = tmp_path_factory.mktemp("prometheus")
    port = free_port()
    archiver = cluster.archiver_of(str(home / "archive"), STATUS_PORT=str(port))
    prometheus = Prometheus(home, [*apis, gateway, cluster.status, f"{LOCALHOST}:{port}"])
    prometheus.start()
    try:
        with archiver:
            yield prometheus
    finally:
        prometheus.stop()


def ask(driving: Driving) -> None:
    """Requests of each kind: answered, refused unseen."""
    assert driving.get("/v1/users/1").status == 200
    assert driving.get(f"/v1/users/{'1' * 9_000}").status == 414


def test_every_target_can_be_scraped(prometheus: Prometheus) -> None:
    def failing() -> dict[str, str]:
        return {of["scrapeUrl"]: of["lastError"] for of in prometheus.api("targets")["activeTargets"]}

    until(lambda: not any(failing().values()) and prometheus.has_data("up == 1"), "every scrape")
    assert prometheus.services("up == 0") == set()


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[f"{title}: {query}" for title, query in QUERIES])
def test_a_panel_has_data(driving: Driving, prometheus: Prometheus, title: str, query: str) -> None:
    query = query.replace("$__rate_interval", RATE_INTERVAL)

    def shown() -> bool:
        ask(driving)
        return any(
            prometheus.has_data(query.replace("$service", name)) for name in (*driving.cluster.addresses, "gateway")
        )

    if title in EMPTY:
        shown()
    else:
        until(shown, f"data of {query}")


def test_every_rule_can_be_evaluated(prometheus: Prometheus) -> None:
    until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules().values()), "the rules")
    written = [
        rule.get("alert", rule.get("record"))
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
    ]
    assert set(prometheus.rules()) == set(written)


def test_every_metric_of_a_rule_has_data(driving: Driving, prometheus: Prometheus) -> None:
    ask(driving)
    metrics = set().union(*(metrics_of(rule["query"]) for rule in prometheus.rules().values()))
    until(lambda: all(map(prometheus.has_data, metrics)), f"data of {metrics}")


def test_no_service_looks_as_if_it_were_down(prometheus: Prometheus) -> None:
    for name in ("StreamstateStreamDown", "StreamstatePartitionsNotFolded", "StreamstateBuildStuck"):
        query = prometheus.rules()[name]["query"]
        assert prometheus.services(query) == set(), name
