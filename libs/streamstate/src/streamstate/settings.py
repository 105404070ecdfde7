"""Settings of every process, from the environment.

Precedence: 1. an argument given in code, 2. the variable `STREAMSTATE_<NAME>`, 3. the default written here.
A value that does not fit stops the process with the variable's name and the reason.
"""

import re
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, FilePath, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from streamstate.errors import Misconfigured
from streamstate.kafka.security import Security

PREFIX = "STREAMSTATE_"
LEAST_STALENESS_MS = 100
_ADDRESS = r"^[^:/\s]+:[0-9]{1,5}$"


class KafkaSettings(BaseSettings):
    """Kafka, and the proofs that it asks for; every process has these."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    kafka: str = Field("127.0.0.1:9092", description="Kafka bootstrap servers, host:port separated by commas")
    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="how Kafka is spoken to: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    kafka_mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = Field(
        "SCRAM-SHA-512", description="SASL mechanism: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN"
    )
    kafka_username: str = Field("", description="SASL user")
    kafka_password: SecretStr = Field(SecretStr(""), description="SASL password")
    kafka_ca: FilePath | None = Field(
        None, description="PEM file of the CA of Kafka's certificate, unless the system knows it"
    )
    kafka_certificate: FilePath | None = Field(None, description="PEM file of the own certificate, for mutual TLS")
    kafka_key: FilePath | None = Field(None, description="PEM file of the own key (PKCS 8, not encrypted)")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kafka_security.startswith("SASL_") and not (self.kafka_username and self.kafka_password):
            msg = f"{self.kafka_security} needs a user and a password"
            raise ValueError(msg)
        if (self.kafka_certificate is None) != (self.kafka_key is None):
            msg = "a certificate and its key are given together"
            raise ValueError(msg)
        return self

    @property
    def security(self) -> Security:
        """What these settings say, the files read."""
        return Security(
            self.kafka_security,
            self.kafka_mechanism,
            self.kafka_username,
            self.kafka_password.get_secret_value(),
            *(path.read_text() if path else "" for path in (self.kafka_ca, self.kafka_certificate, self.kafka_key)),
        )


class ServiceSettings(KafkaSettings):
    """What the two processes of a service agree on."""

    redis: str = Field(
        "redis://127.0.0.1:6379/0",
        description="Redis or Valkey that holds the state: redis://[user:password@]host:port/db, rediss:// for TLS "
        "(?ssl_ca_certs=<file>), redis+cluster:// or rediss+cluster:// for a cluster",
    )
    name: str = Field(
        "",
        pattern=r"^[a-z0-9-]*$",
        description="name of the deployment (group, Redis prefix, metric label), the service's own when empty",
    )
    topics: dict[str, str] = Field(
        {}, description='other names of topics, as JSON: {"listening-events": "listening-events-eu"}'
    )
    truncated_topics: tuple[str, ...] = Field(
        (),
        description='topics of which Kafka has deleted the first records already, as JSON: ["listening-events"]; a '
        "state without them is refused unless its topic is listed, and its answers say where it begins",
    )


class StreamSettings(ServiceSettings):
    """A stream process: one Spark driver that hosts the queries of one or several services."""

    instance: str = Field(
        "stream-0", description="name of this instance, stable over restarts (static member of the consumer group)"
    )
    advertise: str = Field(
        "127.0.0.1:8101", pattern=_ADDRESS, description="host:port at which others reach this instance's API"
    )
    slots: int = Field(
        2, ge=1, le=64, description="Spark tasks at a time: slots of local[n], partitions are shared out"
    )
    batch_records: int = Field(
        200_000, ge=1_000, description="most records of a micro-batch, over all partitions of a service"
    )
    commit_records: int = Field(
        20_000, ge=100, le=100_000, description="most records of one commit; a larger one keeps Redis busy for longer"
    )
    session_timeout_ms: int = Field(
        10_000, ge=6_000, description="milliseconds after which the group gives a silent instance's partitions away"
    )
    redis_timeout_s: float = Field(10.0, gt=0, description="seconds to wait for one answer of Redis")
    lost_records: Literal["stop", "skip"] = Field(
        "stop",
        description="when Kafka has deleted records that were not read yet: stop, and say so, or skip and count them",
    )
    jars: Path = Field(Path("/opt/streamstate/jars"), description="folder of the Kafka source's jars")
    checkpoints: Path = Field(
        Path("/dev/shm/streamstate"),  # noqa: S108, a folder of its own is made in it
        description="throw-away folder for Spark's own checkpoints, best in memory; no truth is kept there",
    )
    master: str = Field("", description="Spark master; empty for local[slots] inside this process")
    spark: dict[str, str] = Field(
        {}, description='further Spark properties as JSON, e.g. {"spark.executor.cores": "2"}'
    )
    driver_memory: str = Field("1g", description="heap of the Spark driver")
    status_port: int = Field(
        0, ge=0, le=65535, description="port of the stream's own /livez, /readyz and /metrics; 0 for none"
    )


class HttpSettings(BaseSettings):
    """What every API and the gateway have."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    listen: str = Field("127.0.0.1:8080", pattern=_ADDRESS, description="host:port at which requests are answered")
    probe_port: int = Field(
        0, ge=0, le=65535, description="further port for /livez, /readyz and /metrics, of the same host; 0 for none"
    )
    workers: int = Field(0, ge=0, le=64, description="worker processes; 0 for one for each core that there is")
    connections: int = Field(
        4_096, ge=16, description="most connections of a worker; beyond, the one that is idle for longest goes"
    )
    deadline_ms: int = Field(
        2_000, ge=10, le=60_000, description="milliseconds in which a request is answered or fails"
    )
    requests_in_flight: int = Field(
        1_024, ge=1, description="most requests that a worker answers at a time; further ones get a 503 at once"
    )


class DemandSettings(BaseSettings):
    """Of requests that say how fresh their answer must be."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    demands_waiting: int = Field(
        256, ge=0, description="most requests that wait for a fresher state at a time; further ones get a 503 at once"
    )
    least_staleness_ms: int = Field(
        LEAST_STALENESS_MS, ge=0, le=10_000, description="least X-Max-Staleness that may be asked for, in milliseconds"
    )


class ApiSettings(ServiceSettings, HttpSettings, DemandSettings):
    """A service's API process."""

    advertise: str = Field(
        "127.0.0.1:8101", pattern=_ADDRESS, description="host:port of this instance, as its stream advertises it"
    )
    redis_timeout_s: float = Field(1.0, gt=0, description="seconds to wait for one answer of Redis")


class GatewaySettings(HttpSettings):
    """The gateway."""

    instances: dict[str, str] = Field(
        {"metrics": "127.0.0.1:8101", "names": "127.0.0.1:8201", "recommendations": "127.0.0.1:8301"},
        description='instances by service, host:port separated by commas, as JSON: {"metrics": "a:8101,b:8101"}',
    )
    services: dict[str, str] = Field(
        {},
        description="Kubernetes Services by service, as JSON; when there are any, the instances are found by "
        "watching their EndpointSlices, and INSTANCES does not count",
    )
    namespace: str = Field("default", description="Kubernetes namespace of these")
    owners_ttl_s: float = Field(2.0, gt=0, description="seconds between two looks at who owns which partition")
    names_cached: int = Field(200_000, ge=1, description="most names in the cache; 100,000 take about 30 MB")


S = TypeVar("S", bound=BaseSettings)


def load(kind: type[S], prefix: str = PREFIX) -> S:
    """The settings of this process; raises `Misconfigured` naming each variable that does not fit, and why."""
    try:
        return kind()
    except ValidationError as error:
        wrong = [f"{prefix}{_place(*e['loc'])} ({e['msg']})" for e in error.errors()]
        msg = f"change the environment: {'; '.join(wrong)}"
        raise Misconfigured(msg) from error
    except SettingsError as error:
        found = re.search(r'field "(\w+)"', str(error))
        name = f"{prefix}{found[1].upper()}" if found else str(error)
        msg = f"change the environment: {name} (not the JSON that is expected)"
        raise Misconfigured(msg) from error


def _place(variable: str | int = "*", *within: str | int) -> str:
    """A variable, and the place in its JSON."""
    return ".".join(map(str, (str(variable).upper(), *within)))
