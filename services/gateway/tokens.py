"""JWTs: verified with the keys of the issuer, which are fetched in threads and kept."""

import asyncio
import math
import time
from collections.abc import Mapping

import jwt
import structlog
from jwt import PyJWK, PyJWKClient
from jwt.exceptions import PyJWTError

from services.gateway.callers import Caller, of_claims
from services.gateway.settings import AccessSettings
from streamstate.errors import StreamStateError
from streamstate.web.http.problems import not_ready

log = structlog.get_logger()

LEAST_S = 5.0
"""Seconds between two requests for the JWKS, whatever key ids tokens name."""

FETCH_S = 2
LEEWAY_S = 10
"""Seconds that the clocks of issuer and gateway may differ."""

MOST_VERIFIED = 10_000
"""The most JWTs that are remembered."""


class BadToken(StreamStateError):
    """A JWT that is not accepted; the message says why."""


class Tokens:
    """Callers by JWT. For one event loop.

    A key id that is not known is looked for in a new JWKS before the JWT is refused, so that keys can be rotated. While
    the issuer does not answer, the last JWKS is in use. A verified JWT is remembered until it expires, or the JWKS is
    fetched again.
    """

    def __init__(self, settings: AccessSettings) -> None:
        self._settings = settings
        self._client = PyJWKClient(settings.jwt_jwks, cache_jwk_set=False, timeout=FETCH_S)
        self._keys: Mapping[str, PyJWK] = {}
        self._verified: dict[str, tuple[float, Caller]] = {}
        self._fetched_at = -math.inf
        self._fetching = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Fetch the JWKS, and go on fetching it until `stop`."""
        await self._fetch()
        self._running = asyncio.create_task(self._keep_fresh())

    async def stop(self) -> None:
        """Fetch no more."""
        if self._running is not None:
            self._running.cancel()

    async def caller(self, token: str) -> Caller:
        """Whom `token` names. Raises `BadToken`, or a 503 `Problem` while no key of the issuer is known."""
        expires, caller = self._verified.get(token, (0.0, None))
        if caller is not None and time.time() < expires:
            return caller
        key = await self._key(token)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=self._settings.jwt_algorithms,
                audience=self._settings.jwt_audience,
                issuer=self._settings.jwt_issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except PyJWTError as error:
            raise BadToken(str(error)) from error
        caller = of_claims(claims, self._settings)
        self._remember(token, float(claims["exp"]) + LEEWAY_S, caller)
        return caller

    def _remember(self, token: str, expires: float, caller: Caller) -> None:
        self._verified[token] = expires, caller
        if len(self._verified) > MOST_VERIFIED:
            del self._verified[next(iter(self._verified))]

    async def _key(self, token: str) -> PyJWK:
        """The key that `token` names."""
        try:
            name = jwt.get_unverified_header(token).get("kid")
        except PyJWTError as error:
            raise BadToken(str(error)) from error
        if not isinstance(name, str):
            msg = "the token names no key (kid)"
            raise BadToken(msg)
        if name not in self._keys:
            await self._fetch()
        if not self._keys:
            detail = "the keys of the issuer of tokens cannot be had"
            raise not_ready(detail)
        if name not in self._keys:
            msg = "the issuer has no such key (kid)"
            raise BadToken(msg)
        return self._keys[name]

    async def _fetch(self) -> None:
        async with self._fetching:
            if time.monotonic() < self._fetched_at + LEAST_S:
                return
            try:
                keys = await asyncio.to_thread(self._client.get_signing_keys)
            except (PyJWTError, OSError, ValueError) as error:
                log.warning("the JWKS cannot be fetched; the last one stays", reason=str(error))
            else:
                self._keys = {str(key.key_id): key for key in keys}
                self._verified.clear()
            self._fetched_at = time.monotonic()

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self._settings.jwt_refresh_s)
            await self._fetch()
