"""Reads on an event loop, while the connection that they share ends again and again."""

import asyncio

import pytest
import redis
import uvloop
from redis.exceptions import ConnectionError as RedisConnectionError

from devkit.redis_server import RedisServer
from streamstate.state.redis_reader import Pipelined

CLOSINGS, READERS = 100, 20


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_ends_is_a_connection_error_and_the_next_command_connects_again(redis_server, loop) -> None:
    errors: set[type[BaseException]] = set()
