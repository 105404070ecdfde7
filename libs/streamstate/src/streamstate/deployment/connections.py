"""Settings of a process's connections and callers: addresses, logins, certificates.

Passwords, keys and certificates are files. New connections read changed files, without a restart.
"""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, Field, FilePath, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from streamstate.deployment.address import ADDRESS, Address
from streamstate.formats.registered.registry import Registry
from streamstate.kafka.security import OAUTH, Scalar, Security, msk
from streamstate.kafka.security.properties import require_free, require_known
from streamstate.state.redis_connections import Login

PREFIX = "STREAMSTATE_"

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", "AWS_MSK_IAM"]
ClientProperties = dict[Annotated[str, Field(pattern=r"^[a-z0-9._]+$")], Scalar]


class Settings(BaseSettings):
    """Base of all settings with the prefix, the library's and the services': every settings class is a subclass."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)


class KafkaSettings(Settings):
    """Kafka: connection and authentication."""

    kafka: str = Field(
        "127.0.0.1:9092", min_length=1, description="Kafka bootstrap servers, host:port separated by commas"
    )
    kafka_security: Protocol = Field("PLAINTEXT", description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    kafka_mechanism: Mechanism = Field(
        "SCRAM-SHA-512",
        description="SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, OAUTHBEARER, or AWS_MSK_IAM",
    )
    kafka_username: str = Field("", description="SASL user, or OAUTHBEARER's client id")
    kafka_password: FilePath | None = Field(None, description="file of the password, or of OAUTHBEARER's client secret")
    kafka_token_url: str = Field(
        "",
        pattern=r"^(https?://[^@\s]+)?$",
        description="token URL of OAUTHBEARER (client credentials)",
    )
    kafka_scope: str = Field("", description="scope of OAUTHBEARER, if required")
    kafka_region: str = Field("", pattern=r"^[a-z0-9-]*$", description="AWS region, for AWS_MSK_IAM")
    kafka_ca: FilePath | None = Field(None, description="PEM file; empty: the system's CAs")
    kafka_certificate: FilePath | None = Field(
        None, description="PEM file, for mutual TLS; the key is unencrypted PKCS 8"
    )
    kafka_key: FilePath | None = Field(None, description="PEM file, for mutual TLS; the key is unencrypted PKCS 8")
    kafka_properties: ClientProperties = Field(
        {},
        description='further properties of librdkafka: {"client.rack": "eu-1a"}',
    )
    kafka_source_properties: ClientProperties = Field(
        {},
        description="further properties of Spark's Kafka source",
    )

    @field_validator("kafka_properties", "kafka_source_properties")
    @classmethod
    def _properties_are_free(cls, given: ClientProperties) -> ClientProperties:
        require_free(given)
        return given

    @field_validator("kafka_properties")
    @classmethod
    def _properties_are_known(cls, given: ClientProperties) -> ClientProperties:
        require_known(given)
        return given

    @model_validator(mode="after")
    def _kafka_is_complete(self) -> Self:
        if self.kafka_security.startswith("SASL_"):
            if self.kafka_mechanism == msk.AWS_MSK_IAM:
                self._require_aws()
            elif not (self.kafka_username and self.kafka_password):
                msg = f"{self.kafka_security} needs KAFKA_USERNAME and KAFKA_PASSWORD, a file"
                raise ValueError(msg)
            if (self.kafka_mechanism == OAUTH) != bool(self.kafka_token_url):
                msg = "OAUTHBEARER needs KAFKA_TOKEN_URL, and other mechanisms must not have it"
                raise ValueError(msg)
        _require_both(self.kafka_certificate, self.kafka_key, "KAFKA_CERTIFICATE", "KAFKA_KEY")
        return self

    def _require_aws(self) -> None:
        if not self.kafka_region or self.kafka_username or self.kafka_password:
            msg = "AWS_MSK_IAM needs KAFKA_REGION, and must not have KAFKA_USERNAME and KAFKA_PASSWORD"
            raise ValueError(msg)
        msk.require_signer()

    @property
    def security(self) -> Security:
        """The same for the clients."""
        return Security(
            self.kafka_security,
            self.kafka_mechanism,
            self.kafka_username,
            self.kafka_password or "",
            self.kafka_ca or "",
            self.kafka_certificate or "",
            self.kafka_key or "",
            self.kafka_token_url,
            self.kafka_scope,
            self.kafka_region,
            tuple(self.kafka_properties.items()),
            tuple(self.kafka_source_properties.items()),
        )


class RedisSettings(Settings):
    """Redis: authentication."""

    redis_username: str = Field("", description="ACL user; empty: the default user")
    redis_password: FilePath | None = Field(None, description="file of the password")
    redis_sentinel_password: FilePath | None = Field(None, description="file of the password")
    redis_ca: FilePath | None = Field(
        None,
        description="PEM file, for rediss; empty: the system's CAs",
    )
    redis_certificate: FilePath | None = Field(None, description="PEM file, for mutual TLS")
    redis_key: FilePath | None = Field(None, description="PEM file, for mutual TLS")

    @model_validator(mode="after")
    def _redis_is_complete(self) -> Self:
        if self.redis_username and not self.redis_password:
            msg = "REDIS_USERNAME needs REDIS_PASSWORD, a file"
            raise ValueError(msg)
        _require_both(self.redis_certificate, self.redis_key, "REDIS_CERTIFICATE", "REDIS_KEY")
        return self

    @property
    def redis_login(self) -> Login:
        """The same for the clients."""
        return Login(
            self.redis_username,
            self.redis_password,
            self.redis_ca,
            self.redis_certificate,
            self.redis_key,
            self.redis_sentinel_password,
        )


class ArchiveSettings(Settings):
    """The archive."""

    archive: str = Field(
        "",
        pattern=r"^([^@\s]*|[^:@\s]*://[^:@\s]*@[^\s]*)$",
        description="folder, or URI such as s3://bucket/path or gs://bucket/path; empty: no archive",
    )


class RegistrySettings(ArchiveSettings):
    """The schema registry: connection and authentication."""

    registry: str = Field(
        "",
        pattern=r"^(https?://[^@\s]+)?$",
        description="URL (Confluent's paths): https://host:port",
    )
    registry_username: str = Field("", description="user of the registry")
    registry_password: FilePath | None = Field(None, description="file of the password")
    registry_ca: FilePath | None = Field(None, description="PEM file; empty: the system's CAs")

    @model_validator(mode="after")
    def _registry_is_complete(self) -> Self:
        if bool(self.registry_username) != bool(self.registry_password):
            msg = "set both REGISTRY_USERNAME and REGISTRY_PASSWORD, a file, or neither"
            raise ValueError(msg)
        return self

    def schema_registry(self, folder: str = "") -> Registry:
        """The registry for its clients; `folder` keeps fetched schemas."""
        login = self.registry_username, self.registry_password, self.registry_ca
        return Registry(self.registry, folder, *login, self.archive)


class TlsSettings(Settings):
    """TLS of an API and of the gateway, and between them."""

    tls_certificate: FilePath | None = Field(
        None, description="PEM file of LISTEN's certificate chain; empty: plain HTTP"
    )
    tls_key: FilePath | None = Field(None, description="PEM file of its private key")
    tls_client_ca: FilePath | None = Field(
        None, description="PEM file of the callers' CA, to require client certificates"
    )
    instances_ca: FilePath | None = Field(None, description="PEM file of the instances' CA, for calls by TLS")
    instances_certificate: FilePath | None = Field(None, description="PEM file, for mutual TLS with instances")
    instances_key: FilePath | None = Field(None, description="PEM file, for mutual TLS with instances")
    instances_name: str = Field("", description="DNS name in all instances' certificates; empty: the host")

    @model_validator(mode="after")
    def _tls_is_complete(self) -> Self:
        _require_both(self.tls_certificate, self.tls_key, "TLS_CERTIFICATE", "TLS_KEY")
        _require_both(self.instances_certificate, self.instances_key, "INSTANCES_CERTIFICATE", "INSTANCES_KEY")
        if self.tls_client_ca and not self.tls_certificate:
            msg = "TLS_CLIENT_CA needs TLS_CERTIFICATE and TLS_KEY"
            raise ValueError(msg)
        if (self.instances_certificate or self.instances_name) and not self.instances_ca:
            msg = "set INSTANCES_CA too: without it, instances are asked by plain HTTP"
            raise ValueError(msg)
        return self


class StatusSettings(Settings):
    """Probes and metrics of a stream, and of the archiver."""

    status_host: str = Field(
        "127.0.0.1", min_length=1, description="address of STATUS_PORT; * for all addresses, IPv4 and IPv6"
    )
    status_port: int = Field(0, ge=0, le=65535, description="port of /livez, /readyz, /metrics; 0: none")

    @property
    def status_address(self) -> Address:
        """Where the process answers, unless the port is 0."""
        return Address(self.status_host, self.status_port)


class HttpSettings(TlsSettings):
    """HTTP: every API and the gateway."""

    listen: str = Field(
        "127.0.0.1:8080", pattern=ADDRESS, description="host:port; host * for all addresses, IPv4 and IPv6"
    )
    probe_port: int = Field(0, ge=0, le=65535, description="further port for /livez, /readyz, /metrics; 0: none")
    workers: int = Field(0, ge=0, le=64, description="worker processes; 0: the container's cores")
    connections: int = Field(
        4_096,
        ge=16,
        description="connections of a worker; beyond: the longest idle is closed",
    )
    idle_s: int = Field(
        75,
        ge=75,
        le=86_400,
        description="time before an idle connection is closed; more than of a proxy before it, else the proxy's "
        "requests meet closed connections",
    )
    access: Literal["required", "off"] = Field(
        "required",
        description="required: the gateway demands a key or token, instances an internal token; off: open to everybody",
    )
    internal_tokens: FilePath | None = Field(
        None,
        description="file of tokens of gateway and instances, a line each: the first is sent, all are "
        "accepted; read again after changes",
    )
    deadline_ms: int = Field(2_000, ge=10, le=60_000, description="time before a request fails")
    requests_in_flight: int = Field(1_024, ge=1, description="parallel requests of a worker; beyond: 503")
    access_log: bool = Field(default=False, description="log route, status and milliseconds of each request")


def without_password(url: str) -> str:
    """`url`, if it has no user or password. Raises ValueError, without the URL, for either, or an invalid port."""
    scheme, _, rest = url.partition("://")
    hosts, _, path = rest.partition("/")
    for host in hosts.split(","):
        parts = urlsplit(f"{scheme}://{host}/{path}")
        if "@" in parts.netloc or {"username", "password"} & parse_qs(parts.query).keys():
            msg = "must not contain a user or a password; name them in REDIS_USERNAME and, as a file, in REDIS_PASSWORD"
            raise ValueError(msg)
        _ = parts.port  # raises for a port that is no number
    return url


RedisUrl = Annotated[str, AfterValidator(without_password)]
SENTINELS_URL = r"rediss?\+sentinel://[^@?/\s]+/[^@?/\s]+(/[0-9]+)?"
REDIS_URL = rf"^(rediss?://[^@?,\s]+|rediss?\+cluster://[^@?\s]+|{SENTINELS_URL})$"


def _require_both(one: Path | None, other: Path | None, *names: str) -> None:
    if (one is None) != (other is None):
        msg = f"set both {' and '.join(names)}, or neither"
        raise ValueError(msg)
