"""The connections allowed by NetworkPolicies: a selected pod has only the connections of the rules."""

from dataclasses import dataclass
from typing import Any

from tests.charts.rendering import Object, of_kind, pods

NAMESPACE = "default"
"""Where releases are rendered to."""


@dataclass(frozen=True)
class End:
    """A pod, or something outside of the cluster, which has neither labels nor a namespace."""

    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""


ELSEWHERE = End()


def in_namespace(namespace: str = NAMESPACE, **labels: str) -> End:
    return End(tuple(labels.items()), namespace)


def end(objects: list[Object], container: str) -> End:
    """The pod with the container of this name."""
    [metadata] = [
        metadata for metadata, spec in pods(objects) if container in (item["name"] for item in spec["containers"])
    ]
    return End(tuple(metadata["labels"].items()), NAMESPACE)


def allowed(objects: list[Object], source: End, destination: End, port: int, protocol: str = "TCP") -> bool:
    """Whether the policies among `objects`, all of `NAMESPACE`, let `source` connect to this port of `destination`."""
    return _passes(objects, "Egress", source, destination, port, protocol) and _passes(
        objects, "Ingress", destination, source, port, protocol
    )


def _passes(objects: list[Object], direction: str, pod: End, peer: End, port: int, protocol: str) -> bool:
    specs = [policy["spec"] for policy in of_kind(objects, "NetworkPolicy")]
    mine = [spec for spec in specs if direction in spec["policyTypes"] and _selected(spec["podSelector"], pod)]
    if pod.namespace != NAMESPACE or not mine:
        return True
    rules = [rule for spec in mine for rule in spec.get(direction.lower(), [])]
    peers = "to" if direction == "Egress" else "from"
    return any(_peer(rule.get(peers), peer) and _port(rule.get("ports"), port, protocol) for rule in rules)


def _selected(selector: Object, pod: End) -> bool:
    assert selector.keys() <= {"matchLabels"}, "only labels are understood here"
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= set(pod.labels)


def _peer(peers: list[Any] | None, pod: End) -> bool:
    return not peers or any(_is(peer, pod) for peer in peers)


def _is(peer: Object, pod: End) -> bool:
    assert peer.keys() <= {"podSelector", "namespaceSelector"}, "only pods are understood here"
    if "namespaceSelector" in peer:
        namespace = End((("kubernetes.io/metadata.name", pod.namespace),))
        placed = bool(pod.namespace) and _selected(peer["namespaceSelector"], namespace)
    else:
        placed = pod.namespace == NAMESPACE
    return placed and _selected(peer.get("podSelector", {}), pod)


def _port(ports: list[Object] | None, port: int, protocol: str) -> bool:
    return not ports or any((each["port"], each["protocol"]) == (port, protocol) for each in ports)
