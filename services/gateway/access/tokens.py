"""JWTs, verified with the keys of the issuer; a background task fetches the keys."""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import httpx2
import jwt
import msgspec
import structlog
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from services.gateway.access.callers import Caller, of_claims
from services.gateway.settings import AccessSettings
from streamstate.errors import StreamStateError
from streamstate.web.http.problems import not_ready

log = structlog.get_logger()

LEAST_S = 5.0
"""The least seconds between two requests for the JWKS."""

LEEWAY_S = 10
"""The tolerated difference of the clocks of issuer and gateway, in seconds."""

MOST_VERIFIED = 10_000
"""The most verified JWTs in memory."""


class BadToken(StreamStateError):
    """A refused JWT; the message has the reason."""


class Tokens:
    """Callers by JWT. For one event loop.

    A token with an unknown key makes the background task fetch the JWKS again, so keys can be rotated; no request waits
    for the issuer. While the issuer does not answer, the last JWKS is in use. A verified JWT is kept until its expiry
    or the next JWKS.
    """

    def __init__(self, settings: AccessSettings) -> None:
        self._settings = settings
        self._jwks = Jwks(b'{"keys": []}', ())
        self._verified: dict[str, tuple[float, Caller]] = {}
        self._fetched_at = -math.inf
        self._wanted = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Fetch the JWKS, and fetch it again in the background until `stop`."""
        client = httpx2.AsyncClient(timeout=None)
        await self._fetch(client)
        self._running = asyncio.create_task(self._keep_fresh(client))

    async def stop(self) -> None:
        """End the background task."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def caller(self, token: str) -> Caller:
        """The caller of `token`. Raises `BadToken`, or a 503 `Problem` while its key may be fetched."""
        expires, caller = self._verified.get(token, (0.0, None))
        if caller is not None and time.time() < expires:
            return caller
        try:
            claims = self._claims(token)
            caller = of_claims(claims, self._settings)
            expires = float(claims["exp"]) + LEEWAY_S
        except (PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # A signed claim may have any type and size.
            raise BadToken(str(error) if isinstance(error, PyJWTError) else "a claim cannot be read") from error
        self._remember(token, expires, caller)
        return caller

    def _remember(self, token: str, expires: float, caller: Caller) -> None:
        self._verified[token] = expires, caller
        if len(self._verified) > MOST_VERIFIED:
            del self._verified[next(iter(self._verified))]

    def _claims(self, token: str) -> Mapping[str, Any]:
        """The verified claims of `token`. Raises `BadToken`, `PyJWTError` or a 503 `Problem`."""
        head = jwt.get_unverified_header(token)
        kid, algorithm = head.get("kid"), str(head.get("alg"))
        keys = self._jwks.find(kid, algorithm)
        if not keys:
            raise self._unknown_key(algorithm)
        for key in keys[:-1]:
            with suppress(jwt.InvalidSignatureError):
                return self._decoded(token, key)
        return self._decoded(token, keys[-1])

    def _decoded(self, token: str, key: jwt.PyJWK) -> Mapping[str, Any]:
        settings = self._settings
        return jwt.decode(
            token,
            key,
            algorithms=settings.jwt_algorithms,
            audience=settings.jwt_audience,
            issuer=settings.jwt_issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
        )

    def _unknown_key(self, algorithm: str) -> Exception:
        """The refusal of a token with an unknown key; requests a new JWKS, unless the last fetch was recent."""
        if algorithm not in self._settings.jwt_algorithms:
            return BadToken("its algorithm is not accepted")
        if time.monotonic() >= self._fetched_at + LEAST_S or not self._jwks:
            self._wanted.set()
            return not_ready("the keys of the issuer of tokens are being fetched")
        return BadToken("the issuer has no such key")

    async def _fetch(self, client: httpx2.AsyncClient) -> None:
        try:
            self._jwks = Jwks(await fetch(client, self._settings.jwt_jwks), self._settings.jwt_algorithms)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            log.warning("the JWKS cannot be fetched; the last one stays", reason=str(error) or type(error).__name__)
        else:
            self._verified.clear()
        self._fetched_at = time.monotonic()

    async def _keep_fresh(self, client: httpx2.AsyncClient) -> None:
        async with aclosing(client):
            while True:
                self._wanted.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.jwt_refresh_s):
                        await self._wanted.wait()
                await asyncio.sleep(self._fetched_at + LEAST_S - time.monotonic())
                await self._fetch(client)


FETCH_S = 2.0
"""Seconds of a whole request for the JWKS."""

MOST_BYTES = 256 * 1024
"""The largest JWKS."""

MOST_TRIED = 16
"""The most keys tried for the signature of a token."""


async def fetch(client: httpx2.AsyncClient, url: str) -> bytes:
    """The document at `url`. Raises `TimeoutError`, `httpx2.HTTPError` or `ValueError` when there is none."""
    body = b""
    async with asyncio.timeout(FETCH_S), client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response:
        response.raise_for_status()
        async for part in response.aiter_raw():
            body += part
            if len(body) > MOST_BYTES:
                msg = f"the JWKS has more than {MOST_BYTES} bytes"
                raise ValueError(msg)
    return body


class Jwks:
    """Keys by algorithm, each with its id (kid) or None."""

    def __init__(self, document: bytes, algorithms: Sequence[str]) -> None:
        """algorithms: of accepted signatures. Raises `ValueError` for an invalid JWKS.

        Keys of other types, for other uses or with faults are left out.
        """
        try:
            given = msgspec.json.decode(document, type=_Document).keys
        except msgspec.MsgspecError as error:
            msg = f"no JWKS: {error}"
            raise ValueError(msg) from error
        self._keys: defaultdict[str, list[tuple[str | None, PyJWK]]] = defaultdict(list)
        for jwk in given:
            kid = jwk.get("kid")
            for key in _usable(jwk, algorithms):
                self._keys[key.algorithm_name].append((kid if isinstance(kid, str) else None, key))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, kid: str | None, algorithm: str) -> Sequence[PyJWK]:
        """The possible keys of a token: with the id `kid`, else without an id; without `kid` all of `algorithm`."""
        keys = self._keys.get(algorithm, [])
        named = [key for name, key in keys if kid is None or name == kid]
        return (named or [key for name, key in keys if name is None])[:MOST_TRIED]


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


def _usable(jwk: Mapping[str, Any], algorithms: Sequence[str]) -> Iterator[PyJWK]:
    """`jwk` for each possible one of `algorithms`: its own algorithm, or the algorithms of its type."""
    if jwk.get("use", "sig") != "sig":
        return
    any_of_type = jwk.get("kty") == "RSA" and "alg" not in jwk
    for algorithm in algorithms if any_of_type else [None]:
        if any_of_type and not str(algorithm).startswith(("RS", "PS")):
            continue
        try:
            key = PyJWK(dict(jwk), algorithm)
        except (PyJWTError, ValueError, TypeError) as error:
            log.warning("a key of the JWKS cannot be used", reason=type(error).__name__)
            return
        if key.algorithm_name in algorithms:
            yield key
