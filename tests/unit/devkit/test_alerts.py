"""The alerts: each fires when it should and not otherwise, and has a runbook."""

import itertools
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from devkit.docs.reference import METRICS
from tests.dashboards import DASHBOARDS, metrics_of

RULES = Path("charts/monitoring/rules.yaml").resolve()
ALERTS: dict[str, Any] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
RUNBOOKS = Path("docs/runbooks.md")
SECTIONS = dict(re.findall(r"^## (Streamstate\w+)\n(.*?)(?=^## |\Z)", RUNBOOKS.read_text(), re.MULTILINE | re.DOTALL))

READS = 'streamstate_requests_total{{route="/v1/users/<key>", status="{}"}}'
STREAM = {"streamstate_stream_batches_total": "1x60", "streamstate_stream_lag{partition='0'}": "0x60"}


class Case(NamedTuple):
    """Series, a sample a minute, of a service for which the alert fires and of one for which it must not.

    silent, firing: minutes after which nothing fires yet, and after which it does.
    """

    silent: int
    firing: int
    bad: dict[str, str]
    good: dict[str, str]


ARCHIVE = {
    "ArchiverDown": Case(15, 30, {"streamstate_archive_failures_total": "0x10 stale"},
        {"streamstate_archive_failures_total": "0x60"}),
    "ArchiveBehind": Case(8, 20,
        {"streamstate_archive_seconds_left{topic='events', partition='0'}": "40x60",
         "streamstate_archive_seconds_left{topic='events', partition='1'}": "90x60",
         "streamstate_archive_retention_seconds{topic='events'}": "100x60"},
        {"streamstate_archive_seconds_left{topic='events', partition='0'}": "60x60",
         "streamstate_archive_retention_seconds{topic='events'}": "100x60"}),
    "ArchiveFailing": Case(6, 20, {"streamstate_archive_failures_total": "0x5 1+1x60"},
        {"streamstate_archive_failures_total": "0x5 3x60"}),
    "ArchiveLost": Case(4, 10, {"streamstate_archive_lost_total{topic='events'}": "0x5 9x60"},
        {"streamstate_archive_lost_total{topic='events'}": "9x60"}),
}  # fmt: skip
CASES = {
    "StreamDown": Case(10, 25,
        {"streamstate_offset{partition='0'}": "1x60", "streamstate_stream_batches_total": "1x10 stale",
         "streamstate_stream_lag{partition='0'}": "0x10 stale"},
        {**STREAM, "streamstate_offset{partition='0'}": "1x60"}),
    "PartitionsNotFolded": Case(4, 10,
        {**STREAM, "streamstate_offset{partition='0'}": "1x60", "streamstate_offset{partition='1'}": "1x60"},
        {**STREAM, "streamstate_offset{partition='0'}": "1x60"}),
    "StreamRefused": Case(4, 10, {"streamstate_stream_refused": "0x5 1x60"},
        {"streamstate_stream_refused": "0x5 1 0x60"}),
    "StreamFailing": Case(4, 15, {"streamstate_stream_failures_total": "0x5 1+1x10 11x60"},
        {"streamstate_stream_failures_total": "0x5 3x60"}),
    "LagHigh": Case(10, 20,
        {"streamstate_stream_lag{partition='0'}": "5x60", "streamstate_stream_committed_total": "9x60"},
        {"streamstate_stream_lag{partition='0'}": "5000x60", "streamstate_stream_committed_total": "0+1200x60"}),
    "BackgroundFailing": Case(4, 10, {"streamstate_background_failures_total{thread='freshness'}": "0x5 1x60"},
        {"streamstate_background_failures_total{thread='freshness'}": "9x60"}),
    "StateStale": Case(4, 10,
        {"streamstate_state_age_seconds{partition='0'}": "1x60",
         "streamstate_state_age_seconds{partition='1'}": "61x60"},
        {"streamstate_state_age_seconds{partition='0'}": "60x60"}),
    "BuildStuck": Case(10, 40,
        {"streamstate_build_progress{partition='0'}": "0.1+0.1x5 0.6x60"},
        {"streamstate_build_progress{partition='0'}": "0.1+0.001x60",
         "streamstate_build_progress{partition='1'}": "1x60"}),
    "DeadLetters": Case(8, 20,
        {**STREAM, "streamstate_offset{partition='0'}": "0+1000x60",
         "streamstate_dead_letters_total{partition='0'}": "0x8 0+10x60"},
        {**STREAM, "streamstate_offset{partition='0'}": "0+10000x60",
         "streamstate_dead_letters_total{partition='0'}": "0+5x60"}),
    "OpenTransaction": Case(7, 12,
        {**STREAM, "streamstate_stream_held_back{topic='events', partition='0'}": "0x3 5x60"},
        {**STREAM, "streamstate_stream_held_back{topic='events', partition='0'}": "5 0 7 0 5 0 9 0 5 0 5 0 4 0 4 0"}),
    "LateRecords": Case(8, 20,
        {**STREAM, "streamstate_offset{partition='0'}": "0+100x60",
         "streamstate_counted_total{partition='0', what='late_records'}": "0x5 0+20x60"},
        {**STREAM, "streamstate_offset{partition='0'}": "0+100x60",
         "streamstate_counted_total{partition='0', what='late_records'}": "0+5x60"}),
    "RecordsLost": Case(4, 10, {"streamstate_lost_records_total{partition='0'}": "0x5 1x60"},
        {"streamstate_lost_records_total{partition='0'}": "7x60"}),
    "HistoryEnds": Case(8, 20, {"streamstate_history_seconds{topic='events'}": "172799x60"},
        {"streamstate_history_seconds{topic='events'}": "172801x60"}),
    "BackupOld": Case(14, 30, {"streamstate_last_backup_timestamp_seconds": "-172500x60"},
        {"streamstate_last_backup_timestamp_seconds": "-172500x10 600x60"}),
    "KeysMisplaced": Case(4, 10, {"streamstate_misplaced_keys_total{partition='0'}": "0x5 1x60"},
        {"streamstate_misplaced_keys_total{partition='0'}": "7x60"}),
    "ReadsFailing": Case(5, 15, {READS.format(200): "0+95x60", READS.format(504): "0+5x60"},
        {READS.format(200): "0+960x60", READS.format(500): "0+5x60", READS.format(503): "0+40x60"}),
    "ReadsRefused": Case(5, 15, {READS.format(200): "0+90x60", READS.format(503): "0+10x60"},
        {READS.format(200): "0+96x60", READS.format(503): "0+4x60"}),
    "Overloaded": Case(5, 15, {"streamstate_refused_requests_total{problem='overloaded'}": "0+60x60"},
        {"streamstate_refused_requests_total{problem='too-large'}": "0+60x60"}),
    "OwnersAway": Case(10, 20, {"streamstate_stood_in_requests_total": "0+60x60"},
        {"streamstate_stood_in_requests_total": "0+60x5 300x60"}),
    **ARCHIVE,
}  # fmt: skip


def labelled(series: str, service: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    return f'{name}{{service="{service}", instance="{service}", {labels}}}'


def trial(name: str, case: Case, expected: Sequence[Mapping[str, Any]] = ()) -> Mapping[str, Any]:
    """A test group of promtool: these alerts fire at the end of the case."""
    given = [
        {"series": labelled(series, service), "values": values}
        for service, of_service in (("bad", case.bad), ("good", case.good))
        for series, values in of_service.items()
    ]
    fires = 'count by (alertname, service, instance) (ALERTS{alertstate="firing"})'
    asked = [
        {"expr": fires, "eval_time": f"{minutes}m", "exp_samples": samples}
        for minutes, samples in ((case.silent, []), (case.firing, list(expected)))
    ]
    return {"name": name, "interval": "1m", "input_series": given, "promql_expr_test": asked}


def alert(name: str, place: str = "service") -> Mapping[str, Any]:
    return {"labels": f'{{alertname="Streamstate{name}", {place}="bad"}}', "value": 1}


def assert_passed(home: Path, *trials: Mapping[str, Any]) -> None:
    path = home / "test.yaml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": trials}))
    ran = subprocess.run(["promtool", "test", "rules", str(path)], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    places = {name: "instance" if "instance" in ALERTS[f"Streamstate{name}"]["expr"] else "service" for name in CASES}
    assert_passed(tmp_path, *(trial(name, case, [alert(name, places[name])]) for name, case in CASES.items()))


def test_what_follows_from_a_stream_that_does_not_fold_is_one_alert(tmp_path: Path) -> None:
    consequences = {
        "streamstate_offset{partition='0'}": "0x60",
        "streamstate_state_age_seconds{partition='0'}": "0x12 61x60",
        "streamstate_build_progress{partition='0'}": "0+0.05x11 0.6x60",
        READS.format(503): "0x12 0+60x60",
    }
    cases = {
        cause: CASES[cause]._replace(bad={**STREAM, **consequences, **CASES[cause].bad}, firing=40)
        for cause in ("StreamDown", "StreamRefused")
    }
    assert_passed(tmp_path, *(trial(cause, case, [alert(cause)]) for cause, case in cases.items()))


def test_a_release_that_no_client_depends_on_raises_no_alert(tmp_path: Path) -> None:
    """Beside the first release, or with the end of its gateway."""
    besides = [
        trial(f"{name}, {use}", CASES[name]._replace(bad={**CASES[name].bad, "streamstate_in_use": use}))
        for name in CASES.keys() - {"BackgroundFailing", *ARCHIVE}
        for use in ("0x60", "0x12 stale")
    ]
    refused = {"streamstate_stream_refused": "1x60"}
    promoted = Case(8, 20, {**refused, "streamstate_in_use": "0x10 1x60"}, {**refused, "streamstate_in_use": "0x60"})
    assert_passed(tmp_path, *besides, trial("promoted", promoted, [alert("StreamRefused")]))


def test_every_alert_is_tried() -> None:
    assert {f"Streamstate{name}" for name in CASES} == set(ALERTS)


def test_prometheus_takes_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_is_wrong_and_leads_to_its_runbook(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["for"]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}#{alert.lower()}"
    assert metrics_of(rule["expr"]) <= {metric.name for metric in METRICS}


def test_every_runbook_is_that_of_an_alert() -> None:
    assert set(SECTIONS) == set(ALERTS)


@pytest.mark.parametrize("alert", SECTIONS)
def test_a_runbook_says_what_it_means_how_to_see_it_and_what_to_do(alert: str) -> None:
    assert re.findall(r"^\*\*(\w+)\.\*\*", SECTIONS[alert], re.MULTILINE) == ["Means", "See", "Do"]
    assert "streamstate " in SECTIONS[alert]


# Grafana's dashboards as Grafana takes them: known metrics, unique ids, and a data source that is chosen.

SCHEMA_VERSION = 39
UNITS = {"short", "reqps", "cps", "s", "bytes", "percentunit"}


@pytest.mark.parametrize("uid", DASHBOARDS)
class TestDashboard:
    def test_it_is_chosen_by_its_uid_and_has_no_id_of_an_installation(self, uid: str) -> None:
        dashboard = DASHBOARDS[uid]
        assert (dashboard["uid"], dashboard["schemaVersion"], dashboard.get("id")) == (uid, SCHEMA_VERSION, None)

    def test_every_query_is_asked_of_the_data_source_that_the_user_chose(self, uid: str) -> None:
        variables = {variable["name"]: variable for variable in DASHBOARDS[uid]["templating"]["list"]}
        assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
        queries = [target for panel in DASHBOARDS[uid]["panels"] for target in panel["targets"]]
        assert all(query["datasource"]["uid"] == "${datasource}" for query in queries)
        assert any("$service" in query["expr"] for query in queries) == ("service" in variables)

    def test_panels_differ_and_do_not_overlap(self, uid: str) -> None:
        panels = DASHBOARDS[uid]["panels"]
        assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
        assert not any(overlap(a["gridPos"], b["gridPos"]) for a, b in itertools.combinations(panels, 2))
        assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)

    def test_every_metric_is_defined_and_described(self, uid: str) -> None:
        meanings = {metric.name: metric.meaning for metric in METRICS}
        for panel in DASHBOARDS[uid]["panels"]:
            names = set().union(*(metrics_of(target["expr"]) for target in panel["targets"]))
            assert all(f"{name}: {meanings[name]}" in panel["description"] for name in names)
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS


def test_the_panels_show_every_metric() -> None:
    queries = [target["expr"] for of in DASHBOARDS.values() for panel in of["panels"] for target in panel["targets"]]
    detail = {
        "recommendations_graph_nodes",
        "recommendations_graph_edges",
        "recommendations_graph_bytes_per_million_events",
        "recommendations_graph_offset",
    }
    assert set().union(*map(metrics_of, queries)) == {metric.name for metric in METRICS} - detail


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in ("xw", "yh"))
