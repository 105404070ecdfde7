"""Values by which pods are reached: Services, what leads to the gateway from outside, NetworkPolicies."""

from typing import Any, Literal

from pydantic import Field

from devkit.charts.parts import Port, Values


class KubernetesService(Values):
    """The Service. The headless one, by which the gateway finds the pods, is another."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        default="ClusterIP", description="ClusterIP, NodePort or LoadBalancer"
    )
    port: Port = Field(default=8080, description="port of the Service")
    annotations: dict[str, str] = Field(default={}, description="annotations, e.g. for a cloud's load balancer")


class Ingress(Values):
    """The Ingress."""

    enabled: bool = Field(default=False, description="whether there is an Ingress")
    class_name: str = Field(default="", description="the IngressClass; empty: the cluster's default")
    annotations: dict[str, str] = Field(
        default={}, description="annotations, e.g. a read timeout longer than HEARTBEAT_S for streams of events"
    )
    hosts: list[str] = Field(default=[], description="host names; none: every host")
    tls: list[dict[str, Any]] = Field(default=[], description="tls of an Ingress: [{hosts, secretName}]")


class HttpRoute(Values):
    """The HTTPRoute of the Gateway API."""

    enabled: bool = Field(default=False, description="whether there is an HTTPRoute; it needs the Gateway API's CRDs")
    parent_refs: list[dict[str, Any]] = Field(default=[], description="the Gateways that it attaches to")
    hostnames: list[str] = Field(default=[], description="host names; none: those of the Gateway")
    annotations: dict[str, str] = Field(default={}, description="annotations")


class Network(Values):
    """The NetworkPolicy. Pods of this project in the namespace reach the API; DNS is always allowed."""

    enabled: bool = Field(default=True, description="whether there is a NetworkPolicy")
    from_: list[dict[str, Any]] = Field(
        default=[],
        serialization_alias="from",
        description="further NetworkPolicyPeers that may ask the API, e.g. an ingress controller",
    )
    prometheus: list[dict[str, Any]] = Field(
        default=[],
        description="NetworkPolicyPeers that may read /metrics; empty: every pod of the cluster where there is a "
        "ServiceMonitor, else none",
    )
    egress_ports: list[Port] = Field(
        default=[],
        description="further TCP ports of other hosts that the pods may connect to. Those that the values name are "
        "allowed; a URL in a Secret is taken to have its customary port (Redis 6379 and 6380, registry 443 and 8081)",
    )
