"""Settings of access to the gateway: keys, JWTs and limits."""

from typing import Literal, Self

from pydantic import Field, FilePath, model_validator

from streamstate.deployment.connections import REDIS_URL, RedisSettings, RedisUrl

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Of signatures: only those whose keys are public, so that none of them can be taken for a shared secret."""


class AccessSettings(RedisSettings):
    """Access to the gateway."""

    access_keys: FilePath | None = Field(
        None,
        description="file of API keys, a line of `streamstate keys new` each; read again when it changes",
    )
    jwt_jwks: str = Field(
        "",
        pattern=r"^$|^https://.+|^http://127\.0\.0\.1[:/].*",
        description="https URL of the JWKS with the keys that sign JWTs; empty: JWTs are not accepted",
    )
    jwt_issuer: str = Field("", description="the `iss` that a JWT must have")
    jwt_audience: str = Field("", description="the `aud` that a JWT must have")
    jwt_algorithms: tuple[Algorithm, ...] = Field(
        ("RS256", "ES256"), min_length=1, description='algorithms of signatures that are accepted: ["RS256", "EdDSA"]'
    )
    jwt_scopes: str = Field("scope", description="the claim with the scopes of a caller: a list, or text with spaces")
    jwt_user: str = Field(
        "",
        description="the claim with the only user id that a caller may ask for; a JWT without it then needs the scope "
        "admin. Empty: callers may ask for all users",
    )
    jwt_refresh_s: float = Field(300.0, gt=0, description="seconds between two requests for the JWKS")
    requests_per_s: int = Field(
        100, ge=1, description="most requests a second of a caller whose key has no limit; 429 beyond it"
    )
    cost_per_s: int = Field(
        1_000,
        ge=1,
        description="most cost a second of a caller whose key has no limit; a read of a key costs 1",
    )
    streams_share: float = Field(
        0.1, gt=0, le=1, description="largest share of STREAMS that one caller may have open; 429 beyond it"
    )
    limits_redis: RedisUrl = Field(
        "",
        pattern=rf"^$|{REDIS_URL}",
        description="URL of the Redis by which the gateway's workers share limits, as REDIS has it; each has limits of "
        "its own when it is empty, or while Redis does not answer",
    )
    limits_prefix: str = Field(
        "gateway", pattern=r"^[A-Za-z0-9._-]+$", description="first part of the keys of limits in LIMITS_REDIS"
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.jwt_jwks and not (self.jwt_issuer and self.jwt_audience):
            msg = "JWT_JWKS needs JWT_ISSUER and JWT_AUDIENCE"
            raise ValueError(msg)
        return self
