"""Grafana's dashboards as Grafana takes them: known metrics, unique ids, and a data source that is chosen."""

import itertools
from typing import Any

import pytest

from devkit.charts.dashboards import SCHEMA_VERSION, dashboards, metrics_of
from devkit.reference import METRICS

DASHBOARDS = dashboards()
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
