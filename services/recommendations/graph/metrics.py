"""The metrics of an API instance's graph."""

from collections.abc import Iterable

from prometheus_client.core import Metric

from services.recommendations.graph.live import Live
from streamstate.deployment.metrics import Definition
from streamstate.web.state import AppState

NODES = Definition(
    "recommendations_graph_nodes", ("kind",), "users, artists, albums and tracks with present or past edges"
)
EDGES = Definition("recommendations_graph_edges", ("kind",), "plays in the window")
BYTES = Definition("recommendations_graph_bytes", (), "memory of the graph")
PER_MILLION = Definition("recommendations_graph_bytes_per_million_events", (), "memory of a million plays")
OFFSET = Definition("recommendations_graph_offset", ("partition",), "next offset of the graph")
LAG = Definition(
    "recommendations_graph_lag",
    ("partition",),
    "records of the state missing in the graph",
)
METRICS = (NODES, EDGES, BYTES, PER_MILLION, OFFSET, LAG)


async def collect(live: Live, state: AppState) -> Iterable[Metric]:
    """All of `METRICS`, from the graph at each scrape."""
    graph = live.held
    nodes, edges, size, mean, offset, lag = (metric.gauge() for metric in METRICS)
    views = {kind: graph.view(kind) for kind in graph.kinds}
    for kind, view in views.items():
        nodes.add_metric([kind], len(view.items))
        edges.add_metric([kind], len(graph))
    nodes.add_metric(["users"], len(next(iter(views.values())).users))
    size.add_metric([], graph.nbytes)
    mean.add_metric([], 1e6 * graph.nbytes / max(1, len(graph)))
    positions = live.positions
    snapshots = await state.read({partition: [] for partition in positions})
    for partition, snapshot in snapshots.items():
        offset.add_metric([str(partition)], positions[partition])
        stored = snapshot.positions.get(live.topic, 0)
        lag.add_metric([str(partition)], stored - positions[partition])
    return (nodes, edges, size, mean, offset, lag)
