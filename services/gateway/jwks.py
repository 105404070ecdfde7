"""The public keys of an issuer of JWTs (RFC 7517): fetched within bounds, and selected for a token."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx2
import msgspec
import structlog
from jwt import PyJWK
from jwt.exceptions import PyJWTError

log = structlog.get_logger()

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
