"""Who asks: the caller that a key or a JWT names."""

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
    """A caller and what it may do.

    name: of its key, or a hash of a JWT's issuer and subject; it names its limits, and who did what in the log.
    user: the only user id that it may ask for, None when it may ask for all.
    """

    name: str
    scopes: Set[Scope]
    requests_per_s: int
    cost_per_s: int
    user: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether `scope` is allowed; an admin may do everything."""
        return scope in self.scopes or ADMIN in self.scopes


def of_key(key: Key, settings: AccessSettings) -> Caller:
    return Caller(
        key.name,
        frozenset(key.scopes),
        key.requests_per_s or settings.requests_per_s,
        key.cost_per_s or settings.cost_per_s,
    )


def of_claims(claims: Mapping[str, Any], settings: AccessSettings) -> Caller:
    """The caller whom verified claims name."""
    subject = f"{claims['iss']}\n{claims['sub']}"
    given = claims.get(settings.jwt_scopes, ())
    names = given.split() if isinstance(given, str) else given if isinstance(given, list) else ()
    scopes = frozenset(SCOPES[name] for name in names if isinstance(name, str) and name in SCOPES)
    user = claims.get(settings.jwt_user) if settings.jwt_user else None
    if settings.jwt_user and user is None:
        # An issuer that forgets the claim must not give everybody's data to everybody.
        scopes &= {ADMIN}
    name = f"jwt-{sha256(subject.encode()).hexdigest()[:32]}"
    return Caller(name, scopes, settings.requests_per_s, settings.cost_per_s, None if user is None else str(user))
