"""Parts of values of several charts."""

from typing import Annotated, Any

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from devkit.charts.variables import setting, value
from services.archive.settings import ArchiverSettings
from services.gateway.settings import AccessSettings
from streamstate.deployment.connections import (
    ClientProperties,
    HttpSettings,
    KafkaSettings,
    Mechanism,
    Protocol,
    RedisSettings,
    RegistrySettings,
    TlsSettings,
)
from streamstate.formats.format import Format
from streamstate.settings import ServiceSettings, StreamSettings

VERSION = "0.1.0"


class Values(BaseModel):
    """A part of a chart's values. Every key is described, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=AliasGenerator(serialization_alias=to_camel))


Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=1)]


class SecretKey(Values):
    """A key of an existing Secret."""

    name: str = value("", "the Secret's name; empty for none")
    key: str = Field(description="the key in it")


class CertificateSecret(Values):
    """Certificate and key for mutual TLS, in an existing Secret."""

    name: str = value("", "the Secret's name; empty for none")
    certificate: str = value("user.crt", "the key of the certificate (PEM)")
    key: str = value("user.key", "the key of the private key (PEM, PKCS 8)")


class KafkaValues(Values):
    """Connection to Kafka. Secrets, as Strimzi's of a cluster CA and a KafkaUser, are files, reloaded after changes."""

    bootstrap: str = setting(KafkaSettings, "kafka", default="kafka:9092")
    security: Protocol = setting(KafkaSettings, "kafka_security")
    mechanism: Mechanism = setting(KafkaSettings, "kafka_mechanism")
    username: str = setting(KafkaSettings, "kafka_username")
    password_secret: SecretKey = setting(KafkaSettings, "kafka_password", default=SecretKey(key="password"))
    token_url: str = setting(KafkaSettings, "kafka_token_url")
    scope: str = setting(KafkaSettings, "kafka_scope")
    region: str = setting(KafkaSettings, "kafka_region")
    properties: ClientProperties = setting(KafkaSettings, "kafka_properties")
    source_properties: ClientProperties = setting(KafkaSettings, "kafka_source_properties")
    ca_secret: SecretKey = setting(KafkaSettings, "kafka_ca", default=SecretKey(key="ca.crt"))
    certificate_secret: CertificateSecret = setting(KafkaSettings, "kafka_certificate", default=CertificateSecret())


_TLS = CertificateSecret(certificate="tls.crt", key="tls.key")


class RedisValues(Values):
    """Connection to Redis. The pods mount the Secrets as files, and reload changed files."""

    url: str = setting(ServiceSettings, "redis", default="redis://redis:6379/0")
    username: str = setting(RedisSettings, "redis_username")
    password_secret: SecretKey = setting(RedisSettings, "redis_password", default=SecretKey(key="password"))
    sentinel_password_secret: SecretKey = setting(
        RedisSettings, "redis_sentinel_password", default=SecretKey(key="password")
    )
    ca_secret: SecretKey = setting(RedisSettings, "redis_ca", default=SecretKey(key="ca.crt"))
    certificate_secret: CertificateSecret = setting(RedisSettings, "redis_certificate", default=_TLS)


class LimitsRedis(RedisValues):
    """The Redis by which replicas of the gateway share limits."""

    url: str = setting(AccessSettings, "limits_redis")


class InstanceTlsValues(Values):
    """TLS from the gateway, and from instances, to instances: the same for all connected releases."""

    ca_secret: SecretKey = setting(TlsSettings, "instances_ca", default=SecretKey(key="ca.crt"))
    certificate_secret: CertificateSecret = setting(TlsSettings, "instances_certificate", default=_TLS)
    name: str = setting(TlsSettings, "instances_name")


class Tls(Values):
    """TLS. The pods mount the Secrets as files, and reload changed files. Probes stay plain HTTP."""

    certificate_secret: CertificateSecret = setting(TlsSettings, "tls_certificate", default=_TLS)
    client_ca_secret: SecretKey = setting(TlsSettings, "tls_client_ca", default=SecretKey(key="ca.crt"))
    instances: InstanceTlsValues = value(InstanceTlsValues(), "how instances are asked")


class InternalSecret(Values):
    """The tokens between gateway and instances, the same for all connected releases."""

    name: str = value("streamstate-internal", "the Secret's name", min_length=1)
    key: str = value("tokens", "the key in it")
    generate: bool = value(
        True, "whether a release makes it when it is not there; false where Helm only renders, as in Argo CD"
    )


class AccessValues(Values):
    """Access to a service."""

    enabled: bool = value(True, "whether the gateway asks callers for a key or a JWT, and instances ask the gateway")
    internal_secret: InternalSecret = value(InternalSecret(), "the Secret of the tokens between gateway and instances")


class GatewayAccess(AccessValues):
    """Access to the gateway. JWTs are accepted by `settings`: JWT_JWKS, JWT_ISSUER, JWT_AUDIENCE."""

    keys_secret: SecretKey = value(
        SecretKey(key="keys"),
        "the Secret of the API keys, a line of `streamstate keys new` each; without a name, a Secret with an admin's "
        "key is made: RELEASE-keys, admin-key",
    )
    limits_redis: LimitsRedis = value(
        LimitsRedis(), "the Redis by which replicas share limits; without a URL each limits alone"
    )


class ServiceAccount(Values):
    """The ServiceAccount. Its token is mounted only where the API server is asked."""

    annotations: dict[str, str] = value({}, "annotations, e.g. a cloud's role")


class RegistryValues(Values):
    """Connection to the schema registry."""

    url: str = setting(RegistrySettings, "registry")
    username: str = setting(RegistrySettings, "registry_username")
    password_secret: SecretKey = setting(RegistrySettings, "registry_password", default=SecretKey(key="password"))
    ca_secret: SecretKey = setting(RegistrySettings, "registry_ca", default=SecretKey(key="ca.crt"))


class ArchiveVolume(Values):
    """The volume of a folder, mounted at /archive."""

    claim: str = value("", "an existing PersistentVolumeClaim; empty: one is made, RELEASE, which outlives the release")
    size: str = value("100Gi", "size of the made claim")
    storage_class: str = value("", "StorageClass of the made claim; empty: the cluster's default")
    access_mode: str = value(
        "ReadWriteOnce", "access mode of the made claim; ReadWriteMany where pods on other nodes use the folder"
    )


class ArchiveValues(Values):
    """The archive: topics, and an object store or a volume."""

    topics: list[str] = setting(ArchiverSettings, "archive_topics", default=[])
    uri: str = value("", "URI of an object store, such as s3://bucket/path?region=eu-central-1; empty: the volume")
    credentials_secret: SecretKey = value(
        SecretKey(key="credentials"),
        "the Secret of a file of AWS credentials; no name: the ServiceAccount's role",
    )
    volume: ArchiveVolume = value(ArchiveVolume(), "the volume, where there is no URI")
    formats: dict[str, Format] = setting(ArchiverSettings, "formats")
    deletions: str = setting(ServiceSettings, "deletions")


class Resources(Values):
    """Resources of a container, as in Kubernetes."""

    requests: dict[str, Any] = value({}, "requests, for the scheduler")
    limits: dict[str, Any] = value({}, "limits; a container that exceeds its memory is killed")


def container(cpu: str, memory: str, limit: str, note: str = "") -> Any:
    """The resources of a container: the requests, and the limit of memory. `note` ends the description."""
    resources = Resources(requests={"cpu": cpu, "memory": memory}, limits={"memory": limit})
    return value(resources, f"resources of the container{note}")


class Scratch(Values):
    """Spark's local directories: spilled data of shuffles and Python workers, and the jars."""

    size: str = value("1Gi", "size; a pod that writes more is evicted")
    storage_class: str = value("", "StorageClass of a volume of each pod, which goes with it; empty: the node's disk")


class Executors(Values):
    """Spark executors in their own pods. With a count of 0, the stream's pod folds."""

    count: int = value(0, "executors of an instance; set slots to count times cores", ge=0)
    cores: Count = value(1, "tasks that an executor runs at the same time")
    memory: str = value("512m", "heap of an executor, at least 512m")
    secret: SecretKey = value(
        SecretKey(key="secret"),
        "the Secret of what driver and executors encrypt with; without a name one is made: RELEASE-spark",
    )
    resources: Resources = value(
        Resources(), "resources of an executor's pod; Spark adds the requests for cores and heap"
    )
    admission_policy: bool = value(
        True,
        "whether a ValidatingAdmissionPolicy holds the stream to pods that are its executors, which a Role cannot: it "
        "is an object of the whole cluster",
    )


class StreamValues(Values):
    """The stream: a Spark driver."""

    image: str = value("", "image, with its tag or digest; empty: CHART-stream, of the version")
    slots: int = setting(StreamSettings, "slots")
    driver_memory: str = setting(StreamSettings, "driver_memory")
    resources: Resources = container(
        "500m", "1536Mi", "3Gi", ": for the heap, the Python workers and 256 MiB of files in memory"
    )
    scratch: Scratch = value(Scratch(), "Spark's local directories, of each executor too")
    executors: Executors = value(Executors(), "Spark executors in their own pods")


class Api(Values):
    """The API."""

    image: str = value("", "image, with its tag or digest; empty: CHART-api, of the version")
    workers: int = setting(HttpSettings, "workers", default=1)
    pre_stop_seconds: int = value(5, "seconds by which preStop delays SIGTERM: endpoints are updated", ge=0, le=60)
    resources: Resources = container("100m", "192Mi", "512Mi")


class Budget(Values):
    """The PodDisruptionBudget."""

    enabled: bool = value(True, "whether there is a PodDisruptionBudget")
    max_unavailable: int | str = value(1, "pods evicted at the same time: a number, or as in 25%")


class Monitor(Values):
    """The ServiceMonitor of the Prometheus operator."""

    enabled: bool = value(False, "whether there is a ServiceMonitor")
    labels: dict[str, str] = value({}, "labels by which Prometheus selects it")
    interval: str = value("30s", "interval between two scrapes")


class LagScaling(Values):
    """KEDA: instances by the lag of the consumer group, at most as many as the topic has partitions."""

    enabled: bool = value(False, "whether KEDA sets the number of instances, instead of replicas")
    min: Count = value(1, "least instances")
    max: Count = value(4, "most instances")
    topic: str = value("", "topic whose lag is used; empty: all of the group")
    lag_threshold: Count = value(50_000, "lag, in records, for each instance")
    authentication: str = value("", "name of a TriggerAuthentication, for a secured Kafka")


class CpuScaling(Values):
    """The HorizontalPodAutoscaler: instances by CPU usage."""

    enabled: bool = value(False, "whether an autoscaler sets the number of instances, instead of replicas")
    min: Count = value(2, "least instances")
    max: Count = value(8, "most instances")
    cpu: Count = value(70, "target CPU usage, in percent of the request")


class CronJobValues(Values):
    """A CronJob of the operators' command, in the image of the API."""

    command: list[str] = value([], "arguments of `streamstate`, e.g. [verify]; there is no CronJob without them")
    schedule: str = value(
        "", "when it runs, as in cron; empty: by `kubectl create job NAME --from=cronjob/RELEASE-command` only"
    )
    resources: Resources = container("100m", "256Mi", "1Gi", "; verify has one partition in memory")


class UnloadValues(Values):
    """A CronJob that writes the answers of views for all keys to Parquet files, in the image of the stream."""

    schedule: str = value("", "when it runs, as in cron; there is no CronJob without it")
    views: list[str] = value([], "views of the service, by name, e.g. [metrics]")
    to: str = value("", "folder of a volume, or URI such as s3://bucket/path")
    redis_image: str = value("redis:8", "image on Debian with redis-server, at least as new as Redis")
    scratch: str = value("10Gi", "size of the node's disk for the snapshot")
    resources: Resources = container("50m", "1Gi", "4Gi", "; a Redis in it has the whole snapshot in memory")


class Test(Values):
    """The request of `helm test`."""

    path: str = value("/processors", "path of a GET", pattern="^/")
    contains: str = Field(description="text that the response must contain")
