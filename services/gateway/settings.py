"""Settings of the gateway, and of access to it: keys, JWTs and limits."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, FilePath, model_validator

from streamstate.deployment.address import ADDRESSES
from streamstate.deployment.connections import REDIS_URL, HttpSettings, RedisSettings, RedisUrl

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signature algorithms with public keys: no public key can be taken for a shared secret."""


class GatewaySettings(HttpSettings):
    """The gateway."""

    instances: dict[str, Annotated[str, Field(pattern=ADDRESSES)]] = Field(
        {"metrics": "127.0.0.1:8101", "names": "127.0.0.1:8201", "recommendations": "127.0.0.1:8301"},
        description='instances by service: {"metrics": "a:8101,b:8101"}',
    )
    services: dict[str, str] = Field(
        {},
        description="Kubernetes Services by service: EndpointSlices replace INSTANCES",
    )
    namespace: str = Field("default", description="Kubernetes namespace of SERVICES")
    releases: Path | None = Field(None, description="file of staged releases")
    requests_in_flight_per_instance: int = Field(
        512,
        ge=1,
        description="parallel requests of a worker to an instance; beyond: another instance, or 503",
    )
    origins: tuple[Annotated[str, Field(pattern=r"^\*$|^https?://[^/?#]+$")], ...] = Field(
        (),
        description='origins of browser pages: ["https://app.company"], or ["*"]',
    )
    owners_ttl_s: float = Field(2.0, gt=0, description="seconds between two reads of the owner maps")
    names_cached: int = Field(200_000, ge=1, description="names in the cache; 100,000 take about 30 MB")
    streams: int = Field(1_000, ge=0, description="event streams of a worker; beyond: 503")
    heartbeat_s: float = Field(15.0, gt=0, description="seconds without an event before a comment")
    watch_ms: int = Field(200, ge=10, description="time of a look at all watched users")


class AccessSettings(RedisSettings):
    """Access to the gateway."""

    access_keys: FilePath | None = Field(
        None,
        description="file of API keys, lines of `streamstate keys new`; read again after changes",
    )
    jwt_jwks: str = Field(
        "",
        pattern=r"^$|^https://.+|^http://127\.0\.0\.1[:/].*",
        description="https URL of the issuer's JWKS; empty: no JWTs",
    )
    jwt_issuer: str = Field("", description="required claim of a JWT")
    jwt_audience: str = Field("", description="required claim of a JWT")
    jwt_algorithms: tuple[Algorithm, ...] = Field(
        ("RS256", "ES256"), min_length=1, description='accepted signature algorithms: ["RS256", "EdDSA"]'
    )
    jwt_scopes: str = Field("scope", description="claim with a caller's scopes: a list, or text with spaces")
    jwt_user: str = Field(
        "",
        description="claim with a caller's only user id, required without the scope admin. Empty: all users",
    )
    jwt_refresh_s: float = Field(300.0, gt=0, description="seconds between two reads of the JWKS")
    requests_per_s: int = Field(
        100, ge=1, description="requests a second of a caller without a limit in its key; beyond: 429"
    )
    cost_per_s: int = Field(
        1_000,
        ge=1,
        description="cost a second, likewise; a read of a key costs 1",
    )
    streams_share: float = Field(0.1, gt=0, le=1, description="a caller's share of STREAMS; beyond: 429")
    limits_redis: RedisUrl = Field(
        "",
        pattern=rf"^$|{REDIS_URL}",
        description="Redis URL of limits shared by all workers; empty: each worker limits alone",
    )
    limits_prefix: str = Field("gateway", pattern=r"^[A-Za-z0-9._-]+$", description="prefix of keys in LIMITS_REDIS")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.jwt_jwks and not (self.jwt_issuer and self.jwt_audience):
            msg = "JWT_JWKS needs JWT_ISSUER and JWT_AUDIENCE"
            raise ValueError(msg)
        return self
