"""The values of each chart."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, create_model

from devkit import topics
from devkit.charts.exposure import HttpRoute, Ingress, KubernetesService, Network
from devkit.charts.monitoring import Monitoring
from devkit.charts.parts import (
    AccessValues,
    Api,
    ArchiveValues,
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
    UnloadValues,
    Values,
    container,
)
from devkit.charts.variables import setting, value
from devkit.registry import EXAMPLES, SERVICES, STANDARD, app, release
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


PullPolicy = Annotated[Literal["IfNotPresent", "Always", "Never"], Field(description="IfNotPresent, Always or Never")]


class Pods(Values):
    """Values of all pods. `template` and `notes` are the library chart's templates of the objects and of NOTES.txt."""

    template: ClassVar[str]
    notes: ClassVar[str] = "notes"

    fullname_override: str = value("", "name of all that the release makes; empty: the release's")
    image_pull_policy: PullPolicy = "IfNotPresent"
    image_pull_secrets: list[str] = value([], "names of Secrets for the registry")
    service_account: ServiceAccount = value(ServiceAccount(), "the ServiceAccount")
    settings: dict[str, Any] = value(
        {}, "other settings, named as in docs/reference.md without STREAMSTATE_, e.g. DEADLINE_MS: 500"
    )
    termination_grace_period_seconds: Count = value(
        45, "seconds for a graceful shutdown, preStopSeconds included; it takes 5 to 20"
    )
    pod_labels: dict[str, str] = value({}, "further labels of the pods")
    pod_annotations: dict[str, str] = value({}, "further annotations of the pods")
    pod_security_context: dict[str, Any] = value(
        _POD_SECURITY,
        "security context of the pods; null removes a member: OpenShift gives a user of its own where "
        "runAsUser, runAsGroup and fsGroup are null",
    )
    security_context: dict[str, Any] = value(
        _CONTAINER_SECURITY, "security context of the containers; they write to volumes only"
    )
    extra_env: list[dict[str, Any]] = value(
        [], "further variables of the containers, as in a Pod: [{name: HTTPS_PROXY, value: …}]"
    )
    extra_volumes: list[dict[str, Any]] = value([], "further volumes of the pods")
    extra_volume_mounts: list[dict[str, Any]] = value([], "further mounts of the containers")
    priority_class_name: str = value("", "the PriorityClass of the pods")
    node_selector: dict[str, str] = value({}, "labels that a node must have")
    tolerations: list[dict[str, Any]] = value([], "tolerations of the pods")
    affinity: dict[str, Any] = value({}, "affinity of the pods")
    topology_spread_constraints: list[dict[str, Any]] = value(
        _SPREAD, "how the pods are spread; those without a labelSelector get that of the pods"
    )
    network_policy: Network = value(Network(), "the NetworkPolicy")
    pod_disruption_budget: Budget = value(Budget(), "the PodDisruptionBudget")
    service_monitor: Monitor = value(Monitor(), "the ServiceMonitor of the Prometheus operator")


class Answering(Pods):
    """Values of pods with an API."""

    service: KubernetesService = value(KubernetesService(), "the Service")
    access: AccessValues = value(AccessValues(), "who may ask")
    tls: Tls = value(Tls(), "TLS of the port of the API, and between gateway and instances")


class ServiceValues(Answering):
    """A service whose instances own partitions."""

    template = "owner"

    replicas: Count = value(1, "instances; those beyond the number of partitions are idle")
    stream: StreamValues = value(StreamValues(), "the stream: a Spark driver")
    api: Api = value(Api(), "the API")
    kafka: KafkaValues = value(KafkaValues(), "connection to Kafka; the Secrets may be Strimzi's")
    redis: RedisValues = value(RedisValues(), "connection to Redis")
    registry: RegistryValues = value(RegistryValues(), "connection to the schema registry, if there is one")
    topics: dict[str, str] = setting(ServiceSettings, "topics")
    formats: dict[str, Format] = setting(ServiceSettings, "formats")
    truncated_topics: list[str] = setting(ServiceSettings, "truncated_topics")
    autoscaling: LagScaling = value(LagScaling(), "instances by the lag of the consumer group (KEDA)")
    job: CronJobValues = value(CronJobValues(), "a CronJob of the operators' command")
    unload: UnloadValues = value(UnloadValues(), "a CronJob that writes the answers of views for all keys to files")
    test: Test = value(Test(contains='"service":'), "the request of helm test")


class ReplicatedApi(Api):
    """The API of a service whose instances answer for any key."""

    replicas: Count = value(2, "instances; each has the whole graph in memory")
    resources: Resources = container("500m", "512Mi", "2Gi", "; a play of the window takes about 50 bytes of memory")
    autoscaling: CpuScaling = value(CpuScaling(), "instances by CPU usage")


class Replicated(ServiceValues):
    """A service whose instances answer for any key: streams and APIs are scaled apart."""

    template = "replicated"

    replicas: Count = value(1, "instances of the stream")
    api: ReplicatedApi = value(ReplicatedApi(), "the API, with its own number of replicas")


class AnyService(ServiceValues):
    """All values of all services: their charts have one schema."""

    api: ReplicatedApi = value(
        ReplicatedApi(), "the API; replicas and autoscaling where any instance answers for any key"
    )
    kept: tuple[KeptTopic, ...] = setting(KeptSettings, "kept")
    profile: str = value(
        "",
        "chart profile only: the YAML declaration (--set-file profile=habits.yaml); empty: that of the image, "
        "services/profile/habits.yaml",
    )


class GatewayApi(Api):
    """The API of the gateway; its single worker process takes up to a core."""

    resources: Resources = container("500m", "192Mi", "512Mi")


class Gateway(Answering):
    """The gateway."""

    template = "gateway"

    replicas: Count = value(2, "instances")
    api: GatewayApi = value(GatewayApi(), "the API")
    ingress: Ingress = value(Ingress(), "the Ingress")
    http_route: HttpRoute = value(HttpRoute(), "the HTTPRoute of the Gateway API")
    access: GatewayAccess = value(GatewayAccess(), "who may ask")
    services: dict[str, str] = Field(description="the release name of each service")
    autoscaling: CpuScaling = value(CpuScaling(), "instances by CPU usage")
    test: Test = value(Test(path="/readyz", contains='"status":"ready"'), "the request of helm test")


class ArchiverPods(Pods):
    """The archiver."""

    template = "archive"
    notes = "archiveNotes"

    image: str = value("", "image, with its tag or digest; empty: archive-api, of the version")
    replicas: Count = value(1, "instances; those beyond the number of partitions are idle")
    archive: ArchiveValues = value(ArchiveValues(), "the archive")
    kafka: KafkaValues = value(KafkaValues(), "connection to Kafka; the Secrets may be Strimzi's")
    registry: RegistryValues = value(RegistryValues(), "connection to the schema registry, if there is one")
    resources: Resources = container("100m", "256Mi", "1Gi", "; a file in work takes up to 200 MiB")
    job: CronJobValues = value(
        CronJobValues(command=["archive", "compact"], schedule="0 3 * * *"), "a CronJob of the operators' command"
    )


TlsSecret = Annotated[
    str,
    Field(
        description="Secret of tls.crt, tls.key (PKCS 8) and ca.crt, by which it speaks TLS only; plain text when empty"
    ),
]


class InfraKafka(Values):
    """One broker."""

    image: str = value("apache/kafka:4.1.1", "the official image, or one with /opt/kafka")
    heap: str = value("512m", "heap of the broker")
    storage: str = value("2Gi", "size of its volume")
    tls_secret: TlsSecret = ""
    partitions: Count = value(8, "partitions of each topic")
    topics: dict[str, Mapping[str, str]] = Field(description="the topics to create, and their configurations")
    resources: Resources = container("100m", "768Mi", "1536Mi")


class InfraRedis(Values):
    """One server."""

    image: str = value("redis:8", "the official image, or Valkey's")
    storage: str = value("1Gi", "size of its volume")
    tls_secret: TlsSecret = ""
    resources: Resources = container("100m", "128Mi", "1Gi")


class Infra(Values):
    """Kafka and Redis for development: a server each, without authentication and replication."""

    image_pull_policy: PullPolicy = "IfNotPresent"
    kafka: InfraKafka = Field(description="one broker")
    redis: InfraRedis = value(InfraRedis(), "one server")


SUITE = "suite"
"""The chart of all other charts as a single release, each switched by a value."""

SUITE_DESCRIPTION = (
    "All services, the gateway and monitoring as one release; Kafka and Redis for development where asked for"
)
_OFF = ("archive", "infra")
_MAKER = "gateway"
"""The chart that creates the shared Secret of the tokens."""


def _suite(charts: Mapping[str, Values]) -> Values:
    """The values of a suite of `charts`, by their names."""
    switches: dict[str, Any] = {
        chart: (bool, Field(default=chart not in _OFF, description=f"whether {chart} is installed")) for chart in charts
    }
    parts: dict[str, Any] = {
        chart: (dict[str, Any], Field(default=_given(chart, part), description=f"values of the chart {chart}"))
        for chart, part in charts.items()
    }
    install = create_model("Install", __base__=Values, __doc__="The charts that are installed.", **switches)
    switch = Field(default=install(), description="which charts are installed")
    return create_model("Suite", __base__=Values, __doc__=SUITE_DESCRIPTION, install=(install, switch), **parts)()


def _given(chart: str, part: Values) -> dict[str, Any]:
    """The values of a chart as a part of a release: its release's name, after which objects are named."""
    if "fullname_override" not in type(part).model_fields:
        return {}
    shares = chart != _MAKER and isinstance(part, Answering)
    access = {"access": {"internalSecret": {"generate": False}}} if shares else {}
    return {"fullnameOverride": release(chart), **access}


@cache
def charts() -> Mapping[str, Values]:
    """The charts by their folder, with their default values."""
    made: dict[str, Values] = {
        **{name: Replicated() if app(name).any_instance else ServiceValues() for name in SERVICES},
        "archive": ArchiverPods(),
        "gateway": Gateway(services={name: name for name in map(release, STANDARD)}),
        "infra": Infra(kafka=InfraKafka(topics=topics.configurations())),
        "monitoring": Monitoring(),
    }
    parts = {name: values for name, values in made.items() if name not in EXAMPLES}
    return made | {SUITE: _suite(parts)}
