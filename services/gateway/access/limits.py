"""Limits of callers: tokens a second, shared by the gateway's workers through Redis, and spent in memory."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

import structlog
from redis.exceptions import NoScriptError, RedisError

from streamstate.state.redis_reader import RedisCommands

log = structlog.get_logger()

LEASE_S = 0.1
"""Seconds of tokens in a lease: a worker asks Redis ten times a second, not for each request."""

HELD_S = 1.0
"""Seconds until the unspent tokens of a lease are lost."""

REDIS_S = 0.1
"""Seconds to wait for an answer of Redis."""

RETRY_S = 1.0
"""Seconds without requests to Redis after a failure."""

MOST_HELD = 20_000
"""The most limits of callers in the memory of a worker."""

SCRIPT = Path(__file__).with_name("lease.lua").read_text()
_SHA = sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


class Lease(NamedTuple):
    """Given tokens (0: too few), tokens left in the bucket, and the seconds until the bucket has enough."""

    given: int
    left: int
    wait_s: float


class OwnBuckets:
    """Buckets of tokens of one worker. A bucket holds the tokens of a second, fills evenly, and starts full.

    clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    async def lease(self, name: str, rate: int, needed: int, wanted: int) -> Lease:
        """Take up to `wanted` tokens, at least `needed`, from a bucket of `rate` tokens a second.

        A full bucket gives more tokens than it holds, and is then in debt.
        """
        now = self._clock()
        left, at = self._buckets.pop(name, (float(rate), now))
        left = min(rate, left + (now - at) * rate)
        enough, given = min(needed, rate), 0
        if left >= enough:
            given = max(needed, min(wanted, int(left)))
            left -= given
        self._buckets[name] = left, now
        if len(self._buckets) > MOST_HELD:
            del self._buckets[next(iter(self._buckets))]
        return Lease(given, math.floor(left), max(0.0, enough - left) / rate)

    async def close(self) -> None:
        """Own buckets have no connection."""


class SharedBuckets:
    """Buckets in Redis, under keys with `prefix`. While Redis does not answer, the worker uses its own buckets."""

    def __init__(self, commands: RedisCommands, prefix: str) -> None:
        self._commands = commands
        self._prefix = prefix
        self._own = OwnBuckets()
        self._alone_until = 0.0

    async def lease(self, name: str, rate: int, needed: int, wanted: int) -> Lease:
        if time.monotonic() >= self._alone_until:
            try:
                given, left, wait_ms = await self._ask(f"{self._prefix}:limit:{{{name}}}", rate, needed, wanted)
                return Lease(given, left, wait_ms / 1000)
            except (RedisError, OSError) as error:
                advice = "the Redis of limits does not answer; each worker limits alone"
                log.warning(advice, reason=type(error).__name__)
                self._alone_until = time.monotonic() + RETRY_S
        return await self._own.lease(name, rate, needed, wanted)

    async def close(self) -> None:
        await self._commands.aclose()

    async def _ask(self, key: str, *arguments: int) -> tuple[int, int, int]:
        try:
            answer = await self._commands.execute_command("EVALSHA", _SHA, 1, key, *arguments)
        except NoScriptError:
            answer = await self._commands.execute_command("EVAL", SCRIPT, 1, key, *arguments)
        given, left, wait_ms = answer
        return given, left, wait_ms


@dataclass(slots=True)
class _Held:
    tokens: int = 0
    until: float = 0.0
    left: int = 0
    leasing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Spent(NamedTuple):
    """Whether the tokens were spent, the approximate number of tokens left, and the seconds to wait after a refusal."""

    fine: bool
    left: int
    wait_s: float


class Limiter:
    """Spends tokens of `buckets`, leased in advance. For one event loop."""

    def __init__(self, buckets: OwnBuckets | SharedBuckets) -> None:
        self._buckets = buckets
        self._held: dict[str, _Held] = {}

    async def spend(self, name: str, rate: int, tokens: int) -> Spent:
        """Spend `tokens` of the limit `name` of `rate` tokens a second, or none if too few are left."""
        held = self._of(name)
        if held.tokens > 0 and time.monotonic() > held.until:
            held.tokens = 0
        if held.tokens < tokens:
            # One lease at a time serves all waiting requests; parallel leases would empty the bucket.
            async with held.leasing:
                if held.tokens < tokens:
                    lease = await self._lease(held, name, rate, tokens - held.tokens)
                    if not lease.given:
                        return Spent(fine=False, left=0, wait_s=lease.wait_s)
        held.tokens -= tokens
        return Spent(fine=True, left=max(0, held.left + held.tokens), wait_s=0.0)

    async def _lease(self, held: _Held, name: str, rate: int, needed: int) -> Lease:
        lease = await self._buckets.lease(name, rate, needed, max(needed, round(rate * LEASE_S)))
        held.tokens += lease.given
        held.left, held.until = lease.left, time.monotonic() + HELD_S
        return lease

    def charge(self, name: str, tokens: int) -> None:
        """Spend `tokens` afterwards; later requests wait until the debt is paid."""
        self._of(name).tokens -= tokens

    def _of(self, name: str) -> _Held:
        held = self._held.get(name)
        if held is None:
            if len(self._held) >= MOST_HELD:
                del self._held[next(iter(self._held))]
            held = self._held[name] = _Held()
        return held
