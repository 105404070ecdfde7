"""The panels of Grafana's dashboards: a title, Grafana's name of the unit, and queries (PromQL) by legend.

Every API exports metrics of all partitions: a sum over partitions first takes the maximum of each partition.
"""

from collections.abc import Mapping
from typing import NamedTuple

_READS, _OF = 'route=~"/v1/.*"', 'service="$service"'


class Panel(NamedTuple):
    """A chart over time."""

    title: str
    unit: str
    queries: Mapping[str, str]


def _each(title: str, unit: str, labels: str, query: str, how: str = "sum") -> Panel:
    """A line for each combination of `labels` (names separated by spaces), with the labels as legend."""
    return Panel(title, unit, {" ".join(f"{{{{{name}}}}}" for name in labels.split()): _by(labels, query, how)})


def _by(labels: str, query: str, how: str = "sum") -> str:
    return f"{how} by ({labels.replace(' ', ', ')}) ({query})"


def _metric(name: str, where: str = _OF) -> str:
    return f"streamstate_{name}{{{where}}}" if where else f"streamstate_{name}"


def _rate(name: str, where: str = _OF) -> str:
    return f"rate({_metric(name, where)}[$__rate_interval])"


def _increase(name: str, where: str = _OF, time: str = "1h") -> str:
    return f"increase({_metric(name, where)}[{time}])"


def _quantile(share: float, labels: str, where: str) -> str:
    return f"histogram_quantile({share}, {_by(labels, _rate('request_seconds_bucket', where))})"


def _graph(query: str) -> Mapping[str, str]:
    """A metric of the recommender's graph, without a label of the service."""
    return {"{{instance}}": f"{query} and on (instance) {_metric('requests_total')}"}


OVERVIEW = (
    Panel(
        "Alerts that fire",
        "short",
        {"{{alertname}} {{service}}": 'ALERTS{alertstate="firing", alertname=~"Streamstate.*"}'},
    ),
    _each("Reads", "reqps", "service", _rate("requests_total", _READS)),
    _each(
        "Reads that fail or are refused", "reqps", "service status", _rate("requests_total", f'{_READS}, status=~"5.."')
    ),
    Panel("99 % of the reads take at most", "s", {"{{service}}": _quantile(0.99, "service le", _READS)}),
    Panel("Event streams that are open", "short", {"streams": 'sum(streamstate_open_streams{service="gateway"})'}),
    _each("Age of the state", "s", "service", _metric("state_age_seconds", ""), "max"),
    Panel(
        "Lag, in records",
        "short",
        {
            "{{service}}": _by("service", _metric("stream_lag", "")),
            "{{service}}, held back by open transactions": _by("service", _metric("stream_held_back", "")),
        },
    ),
    _each("Records folded", "cps", "service", _rate("stream_committed_total", "")),
    _each("Progress of builds", "percentunit", "service", _metric("build_progress", ""), "min"),
    _each("Time until topics lose records that states need", "s", "topic", _metric("history_seconds", ""), "min"),
    _each("Releases in use", "short", "service", _metric("in_use", ""), "max"),
    _each("Age of the last backup", "s", "service", f"time() - {_metric('last_backup_timestamp_seconds', '')}", "max"),
    Panel(
        "Time until topics lose records that the archive lacks",
        "s",
        {
            "{{topic}}": _by("topic", _metric("archive_seconds_left", ""), "min"),
            "{{topic}}, retention": _by("topic", _metric("archive_retention_seconds", ""), "min"),
        },
    ),
    Panel(
        "Records of the archive",
        "short",
        {
            "{{topic}}, lacking": _by("topic", _metric("archive_lag", "")),
            "{{topic}}, also in Kafka": _by("topic", _metric("archive_reserve", "")),
            "{{topic}}, next offsets": _by("topic", _metric("archive_offset", "")),
        },
    ),
    _each("Bytes written to the archive, a second", "bytes", "topic", _rate("archive_bytes_total", "")),
    Panel(
        "The archive in an hour",
        "short",
        {
            "{{service}}, files": _by("service", _increase("archive_files_total", "")),
            "{{service}}, failures": _by("service", _increase("archive_failures_total", "")),
            "{{service}}, lost offsets": _by("service", _increase("archive_lost_total", "")),
        },
    ),
    Panel(
        "Streams that refuse, or wait for a schema",
        "short",
        {
            "{{service}} refuses": _by("service", _metric("stream_refused", ""), "max"),
            "{{service}} waits": _by("service", _metric("stream_waiting_for_schema", "")),
        },
    ),
    _each("Failures of queries in 15 minutes", "short", "service", _increase("stream_failures_total", "", "15m")),
    _each(
        "Dead letters in an hour",
        "short",
        "service",
        _by("service partition", _increase("dead_letters_total", ""), "max"),
    ),
    _each(
        "Late records in an hour",
        "short",
        "service partition",
        _increase("counted_total", 'what="late_records"'),
        "max",
    ),
    Panel(
        "Failures of background threads in an hour",
        "short",
        {"{{thread}} {{instance}}": _increase("background_failures_total", "")},
    ),
    _each(
        "Looks at files of keys that cannot be used, in an hour",
        "short",
        "service file",
        _increase("unreadable_files_total", ""),
    ),
)

SERVICE = (
    _each("Requests by route", "reqps", "route", _rate("requests_total")),
    _each("Requests by status", "reqps", "status", _rate("requests_total")),
    Panel(
        "50 and 99 % of the reads take at most",
        "s",
        {name: _quantile(share, "le", f"{_OF}, {_READS}") for name, share in (("50 %", 0.5), ("99 %", 0.99))},
    ),
    _each("Requests refused unseen", "reqps", "problem", _rate("refused_requests_total")),
    Panel(
        "Requests for the keys of other instances",
        "reqps",
        {
            "passed on": f"sum ({_rate('forwarded_requests_total')})",
            "stood in": f"sum ({_rate('stood_in_requests_total')})",
        },
    ),
    _each("Age of the state by partition", "s", "partition", _metric("state_age_seconds"), "max"),
    _each("Lag by partition, in records", "short", "topic partition", _metric("stream_lag"), "max"),
    _each(
        "Records folded by partition", "cps", "topic partition", f"deriv({_metric('offset')}[$__rate_interval])", "max"
    ),
    _each("Micro-batches by instance", "cps", "instance", _rate("stream_batches_total")),
    _each("Progress of the build by partition", "percentunit", "partition", _metric("build_progress"), "max"),
    _each("Offset at which the state begins", "short", "topic partition", _metric("begin_offset"), "max"),
    Panel(
        "Dead letters, misplaced keys and lost records in an hour",
        "short",
        {
            name: f"sum ({_by('partition', _increase(metric), 'max')})"
            for name, metric in (
                ("dead letters", "dead_letters_total"),
                ("misplaced keys", "misplaced_keys_total"),
                ("lost", "lost_records_total"),
            )
        },
    ),
    _each("Counted by the folds in an hour", "short", "what", _by("partition what", _increase("counted_total"), "max")),
    Panel("Lag of the graph, in records", "short", _graph(_by("instance", "recommendations_graph_lag"))),
    Panel("Memory of the graph", "bytes", _graph("recommendations_graph_bytes")),
)
