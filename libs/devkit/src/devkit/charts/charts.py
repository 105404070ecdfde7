"""The values of each chart."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from devkit import topics
from devkit.charts import suite
from devkit.charts.exposure import HttpRoute, Ingress, KubernetesService, Network
from devkit.charts.parts import (
    AccessValues,
    Api,
    Budget,
    Count,
    CpuScaling,
    CronJobValues,
    GatewayAccess,
    KafkaValues,
    LagScaling,
    Monitor,
    RedisValues,
    RegistryValues,
    Resources,
    ServiceAccount,
    StreamValues,
    Test,
    Tls,
    Values,
)
from devkit.charts.variables import setting
from devkit.registry import EXAMPLES, SERVICES, STANDARD, app
from services.topics.settings import KeptSettings, KeptTopic
from streamstate.formats.format import Format
from streamstate.settings import ServiceSettings

_POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "fsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_SPREAD = [
    {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"}
    for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
]


class Pods(Values):
    """Values of all pods. `template` is the one of the library chart that makes the objects."""

    template: ClassVar[str]

    fullname_override: str = Field(default="", description="name of all that the release makes; empty: the release's")
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="IfNotPresent, Always or Never"
    )
    image_pull_secrets: list[str] = Field(default=[], description="names of Secrets for the registry")
    service_account: ServiceAccount = Field(default=ServiceAccount(), description="the ServiceAccount")
    service: KubernetesService = Field(default=KubernetesService(), description="the Service")
    access: AccessValues = Field(default=AccessValues(), description="who may ask")
    tls: Tls = Field(default=Tls(), description="TLS of the port of the API, and between gateway and instances")
    settings: dict[str, Any] = Field(
        default={},
        description="other settings, named as in docs/reference.md without STREAMSTATE_, e.g. DEADLINE_MS: 500",
    )
    termination_grace_period_seconds: Count = Field(
        default=45,
        description="seconds for a graceful shutdown, preStopSeconds included; it takes 5 to 20",
    )
    pod_labels: dict[str, str] = Field(default={}, description="further labels of the pods")
    pod_annotations: dict[str, str] = Field(default={}, description="further annotations of the pods")
    pod_security_context: dict[str, Any] = Field(
        default=_POD_SECURITY,
        description="security context of the pods; null removes a member: OpenShift gives a user of its own where "
        "runAsUser, runAsGroup and fsGroup are null",
    )
    security_context: dict[str, Any] = Field(
        default=_CONTAINER_SECURITY, description="security context of the containers; they write to volumes only"
    )
    extra_env: list[dict[str, Any]] = Field(
        default=[], description="further variables of the containers, as in a Pod: [{name: HTTPS_PROXY, value: …}]"
    )
    extra_volumes: list[dict[str, Any]] = Field(default=[], description="further volumes of the pods")
    extra_volume_mounts: list[dict[str, Any]] = Field(default=[], description="further mounts of the containers")
    priority_class_name: str = Field(default="", description="the PriorityClass of the pods")
    node_selector: dict[str, str] = Field(default={}, description="labels that a node must have")
    tolerations: list[dict[str, Any]] = Field(default=[], description="tolerations of the pods")
    affinity: dict[str, Any] = Field(default={}, description="affinity of the pods")
    topology_spread_constraints: list[dict[str, Any]] = Field(
        default=_SPREAD,
        description="how the pods are spread; those without a labelSelector get that of the pods",
    )
    network_policy: Network = Field(default=Network(), description="the NetworkPolicy")
    pod_disruption_budget: Budget = Field(default=Budget(), description="the PodDisruptionBudget")
    service_monitor: Monitor = Field(default=Monitor(), description="the ServiceMonitor of the Prometheus operator")


class ServiceValues(Pods):
    """A service whose instances own partitions."""

    template = "owner"

    replicas: Count = Field(default=1, description="instances; those beyond the number of partitions are idle")
    stream: StreamValues = Field(default=StreamValues(), description="the stream: a Spark driver")
    api: Api = Field(default=Api(), description="the API")
    kafka: KafkaValues = Field(default=KafkaValues(), description="connection to Kafka; the Secrets may be Strimzi's")
    redis: RedisValues = Field(default=RedisValues(), description="connection to Redis")
    registry: RegistryValues = Field(
        default=RegistryValues(), description="connection to the schema registry, if there is one"
    )
    topics: dict[str, str] = setting(ServiceSettings, "topics")
    formats: dict[str, Format] = setting(ServiceSettings, "formats")
    truncated_topics: list[str] = setting(ServiceSettings, "truncated_topics")
    autoscaling: LagScaling = Field(
        default=LagScaling(), description="instances by the lag of the consumer group (KEDA)"
    )
    job: CronJobValues = Field(default=CronJobValues(), description="a CronJob of the operators' command")
    test: Test = Field(default=Test(contains='"service":'), description="the request of helm test")


class ReplicatedApi(Api):
    """The API of a service whose instances answer for any key."""

    replicas: Count = Field(default=2, description="instances; each has the whole graph in memory")
    resources: Resources = Field(
        default=Resources(requests={"cpu": "500m", "memory": "512Mi"}, limits={"memory": "2Gi"}),
        description="resources of the container; a play of the window takes about 50 bytes of memory",
    )
    autoscaling: CpuScaling = Field(default=CpuScaling(), description="instances by CPU usage")


class Replicated(ServiceValues):
    """A service whose instances answer for any key: streams and APIs are scaled apart."""

    template = "replicated"

    replicas: Count = Field(default=1, description="instances of the stream")
    api: ReplicatedApi = Field(default=ReplicatedApi(), description="the API, with its own number of replicas")


class AnyService(ServiceValues):
    """All values of all services: their charts have one schema."""

    api: ReplicatedApi = Field(
        default=ReplicatedApi(), description="the API; replicas and autoscaling where any instance answers for any key"
    )
    kept: tuple[KeptTopic, ...] = setting(KeptSettings, "kept")


class GatewayApi(Api):
    """The API of the gateway, whose one worker process takes up to a core."""

    resources: Resources = Field(
        default=Resources(requests={"cpu": "500m", "memory": "192Mi"}, limits={"memory": "512Mi"}),
        description="resources of the container",
    )


class Gateway(Pods):
    """The gateway."""

    template = "gateway"

    replicas: Count = Field(default=2, description="instances")
    api: GatewayApi = Field(default=GatewayApi(), description="the API")
    ingress: Ingress = Field(default=Ingress(), description="the Ingress")
    http_route: HttpRoute = Field(default=HttpRoute(), description="the HTTPRoute of the Gateway API")
    access: GatewayAccess = Field(default=GatewayAccess(), description="who may ask")
    services: dict[str, str] = Field(description="the release name of each service")
    autoscaling: CpuScaling = Field(default=CpuScaling(), description="instances by CPU usage")
    test: Test = Field(
        default=Test(path="/readyz", contains='"status":"ready"'), description="the request of helm test"
    )


TlsSecret = Annotated[
    str,
    Field(
        description="Secret of tls.crt, tls.key (PKCS 8) and ca.crt, by which it speaks TLS only; plain text when empty"
    ),
]


class InfraKafka(Values):
    """One broker."""

    image: str = Field(default="apache/kafka:4.1.1", description="the official image, or one with /opt/kafka")
    heap: str = Field(default="512m", description="heap of the broker")
    storage: str = Field(default="2Gi", description="size of its volume")
    tls_secret: TlsSecret = ""
    partitions: Count = Field(default=8, description="partitions of each topic")
    topics: dict[str, Mapping[str, str]] = Field(description="the topics to create, and their configurations")
    resources: Resources = Field(
        default=Resources(requests={"cpu": "100m", "memory": "768Mi"}, limits={"memory": "1536Mi"}),
        description="resources of the container",
    )


class InfraRedis(Values):
    """One server."""

    image: str = Field(default="redis:8", description="the official image, or Valkey's")
    storage: str = Field(default="1Gi", description="size of its volume")
    tls_secret: TlsSecret = ""
    resources: Resources = Field(
        default=Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "1Gi"}),
        description="resources of the container",
    )


class Infra(Values):
    """Kafka and Redis for development: one server each, without authentication and replication."""

    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="IfNotPresent, Always or Never"
    )
    kafka: InfraKafka = Field(description="one broker")
    redis: InfraRedis = Field(default=InfraRedis(), description="one server")


class Dashboards(Values):
    """The ConfigMap of Grafana's dashboards."""

    enabled: bool = Field(default=True, description="whether there is one")
    labels: dict[str, str] = Field(
        default={"grafana_dashboard": "1"}, description="labels by which Grafana's sidecar selects it"
    )


class PrometheusRule(Values):
    """The alerts, for the Prometheus operator."""

    enabled: bool = Field(default=False, description="whether there is one; it needs the operator's CRDs")
    labels: dict[str, str] = Field(default={}, description="labels by which Prometheus selects it")
    runbooks: str = Field(
        default="docs/runbooks.md", description="address of the page of runbooks, which runbook_url leads to"
    )


class Monitoring(Values):
    """Dashboards and alerts of all releases."""

    dashboards: Dashboards = Field(default=Dashboards(), description="Grafana's dashboards, in a ConfigMap")
    prometheus_rule: PrometheusRule = Field(
        default=PrometheusRule(), description="the alerts, for the Prometheus operator; rules.yaml has them for others"
    )


@cache
def charts() -> Mapping[str, Values]:
    """The charts by their folder, with the values that each has by default."""
    made: dict[str, Values] = {
        **{name: Replicated() if app(name).any_instance else ServiceValues() for name in SERVICES},
        "gateway": Gateway(services={name: name for name in STANDARD}),
        "infra": Infra(kafka=InfraKafka(topics=topics.configurations())),
        "monitoring": Monitoring(),
    }
    parts = {name: values for name, values in made.items() if name not in EXAMPLES}
    return made | {suite.NAME: suite.values(parts)}
