"""The values of each chart."""

from typing import Any, Literal

from pydantic import Field

from devkit import topics
from devkit.charts.parts import (
    VERSION,
    Api,
    Budget,
    Count,
    CpuScaling,
    Kafka,
    LagScaling,
    Monitor,
    Network,
    Redis,
    Resources,
    Stream,
    Test,
    Values,
)
from devkit.registry import SERVICES
from services.topics.settings import EXAMPLE, KeptTopic

_KAFKA_PORTS, _REDIS_PORTS = [9092, 9093, 9094], [6379, 6380]


class Pods(Values):
    """What all pods have."""

    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="IfNotPresent, Always or Never"
    )
    image_pull_secrets: list[str] = Field(default=[], description="names of Secrets for the registry")
    settings: dict[str, str | int | float | bool] = Field(
        default={},
        description="further settings, named as in docs/reference.md without STREAMSTATE_, e.g. DEADLINE_MS: 500",
    )
    termination_grace_period_seconds: Count = Field(
        default=45,
        description="seconds for a graceful end; it takes 5 to 20, of which preStopSeconds are for late requests",
    )
    pod_labels: dict[str, str] = Field(default={}, description="further labels of the pods")
    pod_annotations: dict[str, str] = Field(default={}, description="further annotations of the pods")
    node_selector: dict[str, str] = Field(default={}, description="labels of the nodes that may be used")
    tolerations: list[dict[str, Any]] = Field(default=[], description="taints that are tolerated")
    affinity: dict[str, Any] = Field(default={}, description="affinity of the pods; they spread over nodes anyway")
    pod_disruption_budget: Budget = Field(default=Budget(), description="how many pods an eviction may take at a time")
    service_monitor: Monitor = Field(default=Monitor(), description="for the Prometheus operator")


class Service(Pods):
    """A service whose instances own partitions."""

    replicas: Count = Field(default=1, description="instances; more than the topic has partitions stand idle")
    stream: Stream = Field(description="the process that folds: a Spark driver")
    api: Api = Field(description="the process that answers")
    kafka: Kafka = Field(default=Kafka(), description="where the records come from; Strimzi's Secrets fit as they are")
    redis: Redis = Field(default=Redis(), description="where the state is")
    topics: dict[str, str] = Field(
        default={}, description="other names of topics, e.g. listening-events: listening-events-eu"
    )
    truncated_topics: list[str] = Field(
        default=[], description="topics of which Kafka has deleted the first records already, and a state may lack them"
    )
    autoscaling: LagScaling = Field(default=LagScaling(), description="instances by the lag of the group (KEDA)")
    network_policy: Network = Field(
        default=Network(egress_ports=[*_KAFKA_PORTS, *_REDIS_PORTS]), description="who is let in and out"
    )
    test: Test = Field(description="what helm test asks, and the answer that is known")


class TopicsService(Service):
    """The service that is what its values say."""

    kept: list[KeptTopic] = Field(default=[EXAMPLE], description="what is kept of which topics, see services/topics")


class ReplicatedApi(Api):
    """The API of a service of which any instance answers."""

    replicas: Count = Field(default=2, description="instances; each holds everything in memory")
    resources: Resources = Field(
        default=Resources(requests={"cpu": "500m", "memory": "512Mi"}, limits={"memory": "2Gi"}),
        description="of the container: about 50 bytes for each play of the window",
    )


class Replicated(Service):
    """A service of which any instance answers: streams and APIs are scaled apart."""

    replicas: Count = Field(default=1, description="instances of the stream")
    api: ReplicatedApi = Field(description="the process that answers, of which there are replicas of their own")


class Gateway(Pods):
    """The one address for all services."""

    replicas: Count = Field(default=2, description="instances")
    api: Api = Field(description="the process that answers")
    services: dict[str, str] = Field(description="the services, and the name of the release of each")
    autoscaling: CpuScaling = Field(default=CpuScaling(), description="instances by their use of CPU")
    network_policy: Network = Field(default=Network(egress_ports=[443, 6443]), description="who is let in and out")
    test: Test = Field(
        default=Test(path="/readyz", contains="ready"), description="what helm test asks, and the known answer"
    )


class InfraKafka(Values):
    """One broker."""

    image: str = Field(default="apache/kafka:4.1.1", description="the official image, or one with /opt/kafka like it")
    heap: str = Field(default="512m", description="heap of the broker")
    storage: str = Field(default="2Gi", description="size of its volume")
    partitions: Count = Field(default=8, description="partitions of each topic")
    topics: dict[str, dict[str, str]] = Field(
        default=topics.CONFIGS, description="the topics that are made, and their settings"
    )
    resources: Resources = Field(
        default=Resources(requests={"cpu": "100m", "memory": "768Mi"}, limits={"memory": "1536Mi"}),
        description="of the container",
    )


class InfraRedis(Values):
    """One server."""

    image: str = Field(default="redis:8", description="the official image; Valkey's fits too")
    storage: str = Field(default="1Gi", description="size of its volume")
    resources: Resources = Field(
        default=Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "1Gi"}),
        description="of the container",
    )


class Infra(Values):
    """Kafka and Redis for development: one of each, no passwords, no copies."""

    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="IfNotPresent, Always or Never"
    )
    kafka: InfraKafka = Field(default=InfraKafka(), description="one broker")
    redis: InfraRedis = Field(default=InfraRedis(), description="one server")


OF_THEIR_OWN: dict[str, type[Service]] = {"topics": TopicsService}
"""Services with values that no other one has."""


def _service(name: str) -> Service:
    anywhere = SERVICES[name].any_instance
    kind, api = (Replicated, ReplicatedApi) if anywhere else (OF_THEIR_OWN.get(name, Service), Api)
    return kind(
        stream=Stream(image=f"{name}-stream:{VERSION}"),
        api=api(image=f"{name}-api:{VERSION}"),
        test=Test(contains='"service":'),
    )


CHARTS: dict[str, Values] = {
    **{name: _service(name) for name in SERVICES},
    "gateway": Gateway(
        api=Api(image=f"gateway-api:{VERSION}"),
        services={name: name for name in SERVICES},
    ),
    "infra": Infra(),
}
"""The charts by their folder, with the values that each has by default."""
