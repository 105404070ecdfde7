"""Access to the gateway, decided in one place before routing: the caller, its scopes and its limits."""

import binascii
import math
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Self

import msgspec
import structlog

from services.gateway.access.callers import Caller, of_key
from services.gateway.access.limits import REDIS_S, Limiter, OwnBuckets, SharedBuckets, Spent
from services.gateway.access.tokens import BadToken, Tokens
from services.gateway.needs import ANSWER_BYTES, BODY_BYTES, PARAMETERS
from services.gateway.routing.owners import RELEASE
from services.gateway.settings import AccessSettings
from streamstate.errors import Misconfigured
from streamstate.state.redis_reader import open_commands
from streamstate.view import ADMIN, READ, Scope
from streamstate.web.access import keys
from streamstate.web.access.watched_file import WatchedFile
from streamstate.web.http.events import EventStream
from streamstate.web.http.problems import Problem, for_callers
from streamstate.web.http.request import PRICED_BYTES, SERVED_BY, Response
from streamstate.web.server.guard import Guard, Headers, unauthorized
from streamstate.web.server.route import Call, Needs

log = structlog.get_logger()

REQUESTS, COST = "requests", "cost"
LEAST_COST = 1
"""The price of each request, also of one that is refused."""

MOST_WAITING = 64
"""Requests of a caller that wait for a fresher state in a worker: by default, a quarter of those of an instance."""

_RAW_RELEASE = RELEASE.encode()
_OWN_NAMES = ("gateway", "standby")
CHALLENGE = 'Basic realm="user profiles"'
"""Makes a browser ask for a password, and send it with each request of the page. A second scheme would prevent both."""


class Access(Guard):
    """Callers by key or JWT, as `Authorization: Bearer …` or as the password of `Basic`."""

    header_names = ("RateLimit-Policy", "RateLimit")

    def __init__(
        self,
        settings: AccessSettings,
        key_file: WatchedFile[keys.Keys] | None,
        tokens: Tokens | None,
        buckets: SharedBuckets | OwnBuckets,
        streams: int,
    ) -> None:
        self._settings = settings
        self._most_streams = max(1, int(streams * settings.streams_share))
        self._streams: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._key_file = key_file
        self._tokens = tokens
        self._buckets = buckets
        self._limiter = Limiter(buckets)
        self._callers: Mapping[str, Caller] = {}
        self._callers_of: keys.Keys = {}
        self.schemes = {scheme: {"type": "http", "scheme": scheme} for scheme in ("bearer", "basic")}
        someone = Caller("someone", {READ}, settings.requests_per_s, settings.cost_per_s)
        self.problems = [
            _no_credential(),
            forbidden("this needs the scope admin; use a key or a token that has it"),
            _exceeded(someone, REQUESTS, Spent(fine=False, left=0, wait_s=1.0)),
            _too_many_streams(self._most_streams),
            _too_many_waiting(),
        ]

    def security(self, scope: Scope) -> Sequence[Mapping[str, Sequence[str]]]:
        return [{scheme: [scope]} for scheme in self.schemes]

    @classmethod
    def from_settings(
        cls,
        settings: AccessSettings,
        streams: int,
        failed: Callable[[str], None],
    ) -> Self:
        """The guard with `settings`. Raises `Misconfigured` when nobody would have access, or for an unreadable file.

        streams: the most event streams of this process. failed: called with the name of an unusable file.
        """
        if not (settings.access_keys or settings.jwt_jwks):
            msg = "set STREAMSTATE_ACCESS_KEYS, STREAMSTATE_JWT_JWKS or both; STREAMSTATE_ACCESS=off answers everybody"
            raise Misconfigured(msg)
        key_file = WatchedFile(settings.access_keys, keys.parse, failed) if settings.access_keys else None
        tokens = Tokens(settings) if settings.jwt_jwks else None
        commands = settings.limits_redis and open_commands(settings.limits_redis, REDIS_S, settings.redis_login)
        shared = SharedBuckets(commands, settings.limits_prefix) if commands else None
        return cls(settings, key_file, tokens, shared or OwnBuckets(), streams)

    async def start(self) -> None:
        """Start the work in the background."""
        if self._tokens is not None:
            await self._tokens.start()

    async def stop(self) -> None:
        """End the work in the background."""
        if self._tokens is not None:
            await self._tokens.stop()
        await self._buckets.close()

    async def identify(self, headers: Headers) -> Caller:
        credential = _credential(headers)
        if self._key_file is not None and credential.startswith(keys.PREFIX):
            key = keys.find(self._key_file.content, credential)
            if key is not None:
                return self._caller(key, self._key_file.content)
        elif self._tokens is not None and credential.count(".") == 2:
            try:
                return await self._tokens.caller(credential)
            except BadToken as error:
                raise _bad_token(error) from error
        raise _no_credential()

    async def charge(self, caller: Caller, headers: Headers) -> Spent:
        requests = await self._spend(caller, REQUESTS, caller.requests_per_s, 1)
        await self._spend(caller, COST, caller.cost_per_s, LEAST_COST)
        if not caller.may(ADMIN) and any(name == _RAW_RELEASE for name, _ in headers):
            raise forbidden(f"the header {RELEASE} needs the scope admin; ask without it, or use a key that has it")
        return requests

    def received(self, caller: Caller, query: bytes, body: bytes) -> None:
        further = query.count(b"&") // PARAMETERS + len(body) // BODY_BYTES
        self._limiter.charge(f"{caller.name}:{COST}", further)

    async def admit(self, caller: Caller, call: Call, receipt: Spent, method: str) -> Mapping[str, str]:
        refusal = _refusal(caller, call.needs)
        if ADMIN in call.needs.scopes:
            log.info("audit", caller=caller.name, route=call.route, method=method, allowed=not refusal)
        if refusal:
            raise forbidden(refusal)
        cost = await self._spend(caller, COST, caller.cost_per_s, call.needs.cost - LEAST_COST)
        left = f'"{REQUESTS}";r={receipt.left};t=1, "{COST}";r={cost.left};t=1'
        return {"RateLimit-Policy": _policy(caller), "RateLimit": left}

    async def _spend(self, caller: Caller, limit: str, rate: int, tokens: int) -> Spent:
        """Spend `tokens` of a limit of `caller`. Raises a 429 `Problem` when too few are left."""
        spent = await self._limiter.spend(f"{caller.name}:{limit}", rate, tokens)
        if not spent.fine:
            raise _exceeded(caller, limit, spent)
        return spent

    def streaming(self, caller: Caller, stream: EventStream) -> EventStream:
        if self._streams[caller.name] >= self._most_streams:
            stream.close()
            raise _too_many_streams(self._most_streams)
        self._streams[caller.name] += 1

        def close() -> None:
            self._streams[caller.name] -= 1
            if not self._streams[caller.name]:
                del self._streams[caller.name]
            stream.close()

        return replace(stream, chunks=self._charged(caller, stream.chunks), close=close)

    async def _charged(self, caller: Caller, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """`chunks`, each charged like an answer."""
        async for chunk in chunks:
            self._limiter.charge(f"{caller.name}:{COST}", 1 + len(chunk) // ANSWER_BYTES)
            yield chunk

    @contextmanager
    def waiting(self, caller: Caller) -> Iterator[None]:
        if self._waiting[caller.name] >= MOST_WAITING:
            raise _too_many_waiting()
        self._waiting[caller.name] += 1
        try:
            yield
        finally:
            self._waiting -= Counter([caller.name])

    def spent(self, caller: Caller, state_bytes: int) -> None:
        self._limiter.charge(f"{caller.name}:{COST}", state_bytes // PRICED_BYTES)

    def answered(self, caller: Caller, response: Response) -> Response:
        if further := len(response.body) // ANSWER_BYTES:
            self._limiter.charge(f"{caller.name}:{COST}", further)
        if ADMIN in caller.scopes:
            return response
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            problem = for_callers(msgspec.json.decode(response.body))
            response = response._replace(body=msgspec.json.encode(problem))
        if response.served_by in _OWN_NAMES:
            return response
        return response._replace(headers={name: text for name, text in response.headers.items() if name != SERVED_BY})

    def _caller(self, key: keys.Key, known: keys.Keys) -> Caller:
        if known is not self._callers_of:
            self._callers_of = known
            self._callers = {hashed: of_key(of_hash, self._settings) for hashed, of_hash in known.items()}
        return self._callers[key.sha256]


def _credential(headers: Headers) -> str:
    """The key or token of a request, empty for none: with Basic (RFC 7617) the password of any user."""
    given = [text for name, text in headers if name == b"authorization"]
    # Two credentials may name two callers.
    scheme, _, text = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    match scheme.lower():
        case b"bearer":
            return text.strip().decode("latin-1")
        case b"basic":
            with suppress(binascii.Error):
                return b64decode(text.strip(), validate=True).partition(b":")[2].decode("latin-1")
    return ""


def _refusal(caller: Caller, needed: Needs) -> str:
    """The reason to refuse a request of `caller` with the needs `needed`; empty for an allowed request."""
    if needed.own and caller.user is not None and caller.user == needed.user and caller.may(READ):
        return ""
    if missing := [scope for scope in needed.scopes if not caller.may(scope)]:
        return f"this needs the scope {', '.join(sorted(missing))}; use a key or a token that has it"
    if caller.user is not None and needed.user != caller.user:
        return "this token is for the data of one user only; ask for /v1/users/ with its id"
    return ""


def _no_credential() -> Problem:
    detail = "send a key or a token of yours as `Authorization: Bearer KEY`; ask who runs this for one"
    return unauthorized(detail, CHALLENGE)


def _bad_token(error: BadToken) -> Problem:
    return unauthorized(f"the token is not accepted: {error}; get a new one", 'Bearer error="invalid_token"')


def forbidden(reason: str) -> Problem:
    return Problem(403, "forbidden", reason)


def _policy(caller: Caller) -> str:
    return f'"{REQUESTS}";q={caller.requests_per_s};w=1, "{COST}";q={caller.cost_per_s};w=1'


def _too_many_streams(most: int) -> Problem:
    return Problem(429, "too-many-streams-of-caller", f"you have {most} streams open, as many as you may; close one")


def _too_many_waiting() -> Problem:
    detail = f"{MOST_WAITING} requests of yours wait for a fresher state, as many as may; ask again after an answer"
    return Problem(429, "too-many-waiting", detail)


def _exceeded(caller: Caller, limit: str, spent: Spent) -> Problem:
    seconds = max(1, math.ceil(spent.wait_s))
    problem = Problem(429, "limit-exceeded", f"the limit of {limit} a second is used up; ask again in {seconds} s")
    problem.headers |= {
        "Retry-After": str(seconds),
        "RateLimit-Policy": _policy(caller),
        "RateLimit": f'"{limit}";r=0;t={seconds}',
    }
    return problem
