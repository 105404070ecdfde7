"""The values of the chart `monitoring`."""

from devkit.charts.parts import Values
from devkit.charts.variables import value


class Dashboards(Values):
    """The ConfigMap of Grafana's dashboards."""

    enabled: bool = value(True, "whether there is one")
    labels: dict[str, str] = value({"grafana_dashboard": "1"}, "labels by which Grafana's sidecar selects it")


class PrometheusRule(Values):
    """The alerts, for the Prometheus operator."""

    enabled: bool = value(False, "whether there is one; it needs the operator's CRDs")
    labels: dict[str, str] = value({}, "labels by which Prometheus selects it")
    runbooks: str = value("docs/runbooks.md", "address of the page of runbooks, which runbook_url leads to")


class Monitoring(Values):
    """Dashboards and alerts of all releases."""

    dashboards: Dashboards = value(Dashboards(), "Grafana's dashboards, in a ConfigMap")
    prometheus_rule: PrometheusRule = value(
        PrometheusRule(), "the alerts, for the Prometheus operator; rules.yaml has them for others"
    )
