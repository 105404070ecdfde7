"""The panels of Grafana's dashboards: a title, Grafana's name of the unit, and queries (PromQL) by legend.

APIs tell of every partition, whichever instance owns it: sums over partitions take the maximum of each first.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Panel(NamedTuple):
    """A chart over time."""

    title: str
    unit: str
    queries: Mapping[str, str]


OVERVIEW = (
    Panel(
        "Alerts that fire",
        "short",
        {"{{alertname}} {{service}}": 'ALERTS{alertstate="firing", alertname=~"Streamstate.*"}'},
    ),
    Panel(
        "Reads",
        "reqps",
        {"{{service}}": 'sum by (service) (rate(streamstate_requests_total{route=~"/v1/.*"}[$__rate_interval]))'},
    ),
    Panel(
        "Reads that fail or are refused",
        "reqps",
        {
            "{{service}} {{status}}": "sum by (service, status) "
            '(rate(streamstate_requests_total{route=~"/v1/.*", status=~"5.."}[$__rate_interval]))'
        },
    ),
    Panel(
        "99 % of the reads take at most",
        "s",
        {
            "{{service}}": "histogram_quantile(0.99, sum by (service, le) "
            '(rate(streamstate_request_seconds_bucket{route=~"/v1/.*"}[$__rate_interval])))'
        },
    ),
    Panel("Event streams that are open", "short", {"streams": 'sum(streamstate_open_streams{service="gateway"})'}),
    Panel("Age of the state", "s", {"{{service}}": "max by (service) (streamstate_state_age_seconds)"}),
    Panel(
        "Lag, in records",
        "short",
        {
            "{{service}}": "sum by (service) (streamstate_stream_lag)",
            "{{service}}, held back by open transactions": "sum by (service) (streamstate_stream_held_back)",
        },
    ),
    Panel(
        "Records folded",
        "cps",
        {"{{service}}": "sum by (service) (rate(streamstate_stream_committed_total[$__rate_interval]))"},
    ),
    Panel("Progress of builds", "percentunit", {"{{service}}": "min by (service) (streamstate_build_progress)"}),
    Panel(
        "Time until topics lose records that states need",
        "s",
        {"{{topic}}": "min by (topic) (streamstate_history_seconds)"},
    ),
    Panel(
        "Streams that refuse, or wait for a schema",
        "short",
        {
            "{{service}} refuses": "max by (service) (streamstate_stream_refused)",
            "{{service}} waits": "sum by (service) (streamstate_stream_waiting_for_schema)",
        },
    ),
    Panel(
        "Failures of queries in 15 minutes",
        "short",
        {"{{service}}": "sum by (service) (increase(streamstate_stream_failures_total[15m]))"},
    ),
    Panel(
        "Dead letters in an hour",
        "short",
        {
            "{{service}}": "sum by (service) "
            "(max by (service, partition) (increase(streamstate_dead_letters_total[1h])))"
        },
    ),
    Panel(
        "Late records in an hour",
        "short",
        {
            "{{service}} {{partition}}": "max by (service, partition) "
            '(increase(streamstate_counted_total{what="late_records"}[1h]))'
        },
    ),
    Panel(
        "Failures of background threads in an hour",
        "short",
        {"{{thread}} {{instance}}": "increase(streamstate_background_failures_total[1h])"},
    ),
    Panel(
        "Looks at files of keys that cannot be used, in an hour",
        "short",
        {"{{service}} {{file}}": "sum by (service, file) (increase(streamstate_unreadable_files_total[1h]))"},
    ),
)

SERVICE = (
    Panel(
        "Requests by route",
        "reqps",
        {"{{route}}": 'sum by (route) (rate(streamstate_requests_total{service="$service"}[$__rate_interval]))'},
    ),
    Panel(
        "Requests by status",
        "reqps",
        {"{{status}}": 'sum by (status) (rate(streamstate_requests_total{service="$service"}[$__rate_interval]))'},
    ),
    Panel(
        "50 and 99 % of the reads take at most",
        "s",
        {
            name: f"histogram_quantile({quantile}, sum by (le) "
            '(rate(streamstate_request_seconds_bucket{service="$service", route=~"/v1/.*"}[$__rate_interval])))'
            for name, quantile in (("50 %", 0.5), ("99 %", 0.99))
        },
    ),
    Panel(
        "Requests refused unseen",
        "reqps",
        {
            "{{problem}}": "sum by (problem) "
            '(rate(streamstate_refused_requests_total{service="$service"}[$__rate_interval]))'
        },
    ),
    Panel(
        "Requests for the keys of other instances",
        "reqps",
        {
            "passed on": 'sum (rate(streamstate_forwarded_requests_total{service="$service"}[$__rate_interval]))',
            "stood in": 'sum (rate(streamstate_stood_in_requests_total{service="$service"}[$__rate_interval]))',
        },
    ),
    Panel(
        "Age of the state by partition",
        "s",
        {"{{partition}}": 'max by (partition) (streamstate_state_age_seconds{service="$service"})'},
    ),
    Panel(
        "Lag by partition, in records",
        "short",
        {"{{topic}} {{partition}}": 'max by (topic, partition) (streamstate_stream_lag{service="$service"})'},
    ),
    Panel(
        "Records folded by partition",
        "cps",
        {
            "{{topic}} {{partition}}": "max by (topic, partition) "
            '(deriv(streamstate_offset{service="$service"}[$__rate_interval]))'
        },
    ),
    Panel(
        "Micro-batches by instance",
        "cps",
        {
            "{{instance}}": "sum by (instance) "
            '(rate(streamstate_stream_batches_total{service="$service"}[$__rate_interval]))'
        },
    ),
    Panel(
        "Progress of the build by partition",
        "percentunit",
        {"{{partition}}": 'max by (partition) (streamstate_build_progress{service="$service"})'},
    ),
    Panel(
        "Offset at which the state begins",
        "short",
        {"{{topic}} {{partition}}": 'max by (topic, partition) (streamstate_begin_offset{service="$service"})'},
    ),
    Panel(
        "Dead letters, misplaced keys and lost records in an hour",
        "short",
        {
            name: f'sum (max by (partition) (increase({metric}{{service="$service"}}[1h])))'
            for name, metric in (
                ("dead letters", "streamstate_dead_letters_total"),
                ("misplaced keys", "streamstate_misplaced_keys_total"),
                ("lost", "streamstate_lost_records_total"),
            )
        },
    ),
    Panel(
        "Counted by the folds in an hour",
        "short",
        {
            "{{what}}": "sum by (what) "
            '(max by (partition, what) (increase(streamstate_counted_total{service="$service"}[1h])))'
        },
    ),
    Panel(
        "Lag of the graph, in records",
        "short",
        {
            "{{instance}}": "sum by (instance) (recommendations_graph_lag) "
            'and on (instance) streamstate_requests_total{service="$service"}'
        },
    ),
    Panel(
        "Memory of the graph",
        "bytes",
        {
            "{{instance}}": "recommendations_graph_bytes "
            'and on (instance) streamstate_requests_total{service="$service"}'
        },
    ),
)
