"""Values of the network: Services, Ingress and HTTPRoute of the gateway, NetworkPolicies."""

from typing import Any, Literal

from devkit.charts.parts import Port, Values
from devkit.charts.variables import value


class KubernetesService(Values):
    """The Service. The gateway finds the pods by a separate headless Service."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = value("ClusterIP", "ClusterIP, NodePort or LoadBalancer")
    port: Port = value(8080, "port of the Service")
    annotations: dict[str, str] = value({}, "annotations, e.g. for a cloud's load balancer")


class Ingress(Values):
    """The Ingress."""

    enabled: bool = value(False, "whether there is an Ingress")
    class_name: str = value("", "the IngressClass; empty: the cluster's default")
    annotations: dict[str, str] = value(
        {}, "annotations, e.g. a read timeout longer than HEARTBEAT_S for streams of events"
    )
    hosts: list[str] = value([], "host names; none: every host")
    tls: list[dict[str, Any]] = value([], "tls of an Ingress: [{hosts, secretName}]")


class HttpRoute(Values):
    """The HTTPRoute of the Gateway API."""

    enabled: bool = value(False, "whether there is an HTTPRoute; it needs the Gateway API's CRDs")
    parent_refs: list[dict[str, Any]] = value([], "the Gateways that it attaches to")
    hostnames: list[str] = value([], "host names; none: those of the Gateway")
    annotations: dict[str, str] = value({}, "annotations")


class Network(Values):
    """The NetworkPolicy. The project's pods in the namespace reach the API; DNS is always allowed."""

    enabled: bool = value(True, "whether there is a NetworkPolicy")
    from_: list[dict[str, Any]] = value(
        [], "further NetworkPolicyPeers that may ask the API, e.g. an ingress controller", serialization_alias="from"
    )
    prometheus: list[dict[str, Any]] = value(
        [],
        "NetworkPolicyPeers that may read /metrics; empty: every pod of the cluster where there is a ServiceMonitor, "
        "else none",
    )
    egress_ports: list[Port] = value(
        [],
        "further TCP ports of other hosts that the pods may connect to. Those that the values name are allowed; a URL "
        "in a Secret is taken to have its customary port (Redis 6379 and 6380, registry 443 and 8081)",
    )
