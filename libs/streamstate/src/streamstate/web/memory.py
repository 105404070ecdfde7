"""The memory of the state in Redis, measured on request."""

import asyncio
import time
from collections.abc import Callable

import structlog
from redis.exceptions import RedisError

log = structlog.get_logger()

FRESH_S = 60.0
"""Seconds for which a figure answers further requests."""


class StateMemory:
    """The bytes of a state by `measure`, which may block. For one event loop."""

    def __init__(self, measure: Callable[[], int]) -> None:
        self._measure = measure
        self._lock = asyncio.Lock()
        self._bytes: int | None = None
        self._measured_at = -FRESH_S

    async def read(self) -> int | None:
        """The bytes, at most `FRESH_S` old; None where Redis does not answer, or refuses the commands."""
        async with self._lock:
            if time.monotonic() - self._measured_at >= FRESH_S:
                self._bytes = await asyncio.to_thread(self._try_to_measure)
                self._measured_at = time.monotonic()
        return self._bytes

    def _try_to_measure(self) -> int | None:
        try:
            return self._measure()
        except RedisError as error:
            log.info("the memory of the state cannot be measured", reason=str(error))
            return None
