"""Callers by key or JWT."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from services.gateway.settings import AccessSettings
from streamstate.view import ADMIN, EXPLORE, READ, Scope
from streamstate.web.access.keys import Key

SCOPES: Mapping[str, Scope] = {scope: scope for scope in (READ, EXPLORE, ADMIN)}


@dataclass(frozen=True)
class Caller:
    """A caller with scopes and limits.

    name: of the key, or a hash of a JWT's issuer and subject; used for limits and in the log.
    user: the only permitted user id; None: all users.
    """

    name: str
    scopes: Set[Scope]
    requests_per_s: int
    cost_per_s: int
    user: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the caller has `scope`; `admin` includes all scopes."""
        return scope in self.scopes or ADMIN in self.scopes


def of_key(key: Key, settings: AccessSettings) -> Caller:
    return Caller(
        key.name,
        frozenset(key.scopes),
        key.requests_per_s or settings.requests_per_s,
        key.cost_per_s or settings.cost_per_s,
    )


def of_claims(claims: Mapping[str, Any], settings: AccessSettings) -> Caller:
    subject = f"{claims['iss']}\n{claims['sub']}"
    given = claims.get(settings.jwt_scopes, ())
    names = given.split() if isinstance(given, str) else given if isinstance(given, list) else ()
    scopes = frozenset(SCOPES[name] for name in names if isinstance(name, str) and name in SCOPES)
    user = claims.get(settings.jwt_user) if settings.jwt_user else None
    if settings.jwt_user and user is None:
        # Without the claim, a caller would get the data of all users.
        scopes &= {ADMIN}
    name = f"jwt-{sha256(subject.encode()).hexdigest()[:32]}"
    return Caller(name, scopes, settings.requests_per_s, settings.cost_per_s, None if user is None else str(user))
