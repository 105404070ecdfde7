"""The parts of which the values of several charts are made."""

from typing import Annotated, Any, Literal

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

VERSION = "0.1.0"


class Values(BaseModel):
    """A part of a chart's values: every key is described, and no other is taken."""

    model_config = ConfigDict(extra="forbid", alias_generator=AliasGenerator(serialization_alias=to_camel))


Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=1)]


class SecretKey(Values):
    """One key of a Secret that exists."""

    name: str = Field(default="", description="the Secret's name; empty for none")
    key: str = Field(description="the key in it")


class CertificateSecret(Values):
    """Certificate and key for mutual TLS, in a Secret that exists."""

    name: str = Field(default="", description="the Secret's name; empty for none")
    certificate: str = Field(default="user.crt", description="the key of the certificate (PEM)")
    key: str = Field(default="user.key", description="the key of the private key (PEM, PKCS 8)")


class Kafka(Values):
    """Where the records come from. Strimzi's Secrets of a cluster's CA and of a KafkaUser fit as they are."""

    bootstrap: str = Field(
        default="kafka:9092", description="bootstrap servers, host:port separated by commas", min_length=1
    )
    security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = Field(
        default="SCRAM-SHA-512", description="SASL mechanism: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN"
    )
    username: str = Field(default="", description="SASL user")
    password_secret: SecretKey = Field(default=SecretKey(key="password"), description="SASL password")
    ca_secret: SecretKey = Field(
        default=SecretKey(key="ca.crt"), description="CA of the brokers' certificates, unless the system knows it"
    )
    certificate_secret: CertificateSecret = Field(
        default=CertificateSecret(), description="own certificate, for mutual TLS"
    )


class Redis(Values):
    """Where the state is."""

    url: str = Field(
        default="redis://redis:6379/0",
        description="redis:// or rediss:// for TLS (?ssl_ca_certs=/etc/streamstate/redis-ca/ca.crt), "
        "redis+cluster:// or rediss+cluster:// for a cluster; Redis or Valkey",
        pattern=r"^rediss?(\+cluster)?://.+",
    )
    url_secret: SecretKey = Field(
        default=SecretKey(key="url"), description="the URL from a Secret, when it holds a password"
    )
    ca_secret: SecretKey = Field(default=SecretKey(key="ca.crt"), description="CA of the server's certificate")


class Resources(Values):
    """Kubernetes' own: what a container gets at least, and at most."""

    requests: dict[str, Any] = Field(default={}, description="for the scheduler")
    limits: dict[str, Any] = Field(default={}, description="what is not exceeded; a limit of memory ends the container")


class Executors(Values):
    """Spark executors as pods of their own; with a count of 0 the folds run in the stream's pod."""

    count: int = Field(default=0, ge=0, description="how many for each instance; slots is then count times cores")
    cores: Count = Field(default=1, description="tasks at a time in each")
    memory: str = Field(default="512m", description="heap of each, at least 512m")
    resources: Resources = Field(
        default=Resources(), description="of each pod; Spark adds the requests for cores and heap"
    )


class Stream(Values):
    """The process that folds: a Spark driver."""

    image: str = Field(description="image, with its tag or digest", min_length=1)
    slots: Count = Field(default=2, description="tasks at a time", le=64)
    driver_memory: str = Field(default="1g", description="heap of the driver, at least 512m", pattern="^[0-9]+[mg]$")
    resources: Resources = Field(
        default=Resources(requests={"cpu": "500m", "memory": "1536Mi"}, limits={"memory": "3Gi"}),
        description="heap, Python workers and 256 MiB of files in memory fit in",
    )
    executors: Executors = Field(default=Executors(), description="Spark executors as pods of their own")


class Api(Values):
    """The process that answers."""

    image: str = Field(description="image, with its tag or digest", min_length=1)
    workers: int = Field(
        default=1,
        ge=0,
        description="worker processes of a pod, each of which may use a core; 0 for one for each core of the container",
    )
    pre_stop_seconds: int = Field(
        default=5, ge=0, le=60, description="seconds in which requests still come after the end of the pod was decided"
    )
    resources: Resources = Field(
        default=Resources(requests={"cpu": "100m", "memory": "192Mi"}, limits={"memory": "512Mi"}),
        description="of the container",
    )


class Budget(Values):
    """How many pods an eviction may take at a time."""

    enabled: bool = Field(default=True, description="whether there is a PodDisruptionBudget")
    max_unavailable: int | str = Field(default=1, description="a number, or a share as in 25%")


class Network(Values):
    """Who is let in and out, beside the pods of this project and DNS."""

    enabled: bool = Field(default=True, description="whether there is a NetworkPolicy")
    from_: list[dict[str, Any]] = Field(
        default=[],
        serialization_alias="from",
        description="NetworkPolicyPeers that may ask, e.g. an ingress controller or Prometheus",
    )
    egress_ports: list[Port] = Field(description="TCP ports that are reached outside")


class Monitor(Values):
    """For the Prometheus operator."""

    enabled: bool = Field(default=False, description="whether there is a ServiceMonitor")
    labels: dict[str, str] = Field(default={}, description="labels by which Prometheus finds it")
    interval: str = Field(default="30s", description="time between two scrapes")


class LagScaling(Values):
    """For KEDA: instances by the lag of the consumer group. Never more than the topic has partitions."""

    enabled: bool = Field(default=False, description="whether KEDA sets the number of instances, instead of replicas")
    min: Count = Field(default=1, description="least instances")
    max: Count = Field(default=4, description="most instances")
    topic: str = Field(default="", description="the topic whose lag counts")
    lag_threshold: Count = Field(default=50_000, description="records behind for which an instance is added")
    authentication: str = Field(default="", description="name of a TriggerAuthentication, for a secured Kafka")


class CpuScaling(Values):
    """Instances by their use of CPU."""

    enabled: bool = Field(
        default=False, description="whether an autoscaler sets the number of instances, instead of replicas"
    )
    min: Count = Field(default=2, description="least instances")
    max: Count = Field(default=8, description="most instances")
    cpu: Count = Field(default=70, description="percent of the requested CPU that is aimed at")


class Test(Values):
    """What `helm test` asks, and the answer that is known."""

    path: str = Field(default="/processors", description="path of a GET", pattern="^/")
    contains: str = Field(description="text that the answer contains")
