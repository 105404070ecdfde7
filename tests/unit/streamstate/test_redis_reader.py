"""Reads on an event loop, from a server that resets every connection."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread

import pytest
import uvloop
from redis.exceptions import RedisError

from streamstate.state.redis_reader import RedisCommands, open_commands

COMMANDS = 500
RESET = struct.pack("ii", 1, 0)
"""With this SO_LINGER, closing a connection resets it."""


def reset_at_ping(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with connection, suppress(ConnectionError):
        while (received := connection.recv(65_536)) and b"PING" not in received:
            connection.sendall(b"+OK\r\n" * received.count(b"CLIENT"))


@pytest.fixture
def address() -> Iterator[str]:
    """Of a server that resets each connection at its first PING."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    reset_at_ping(listening.accept()[0])

        thread = Thread(target=serve)
        thread.start()
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_every_command_on_a_connection_that_is_reset_ends_in_an_error_of_redis(
    address: str, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    endings: Counter[type[BaseException]] = Counter()
    unretrieved: list[object] = []

    async def read(commands: RedisCommands) -> None:
        try:
            await commands.execute_command("PING")
        except Exception as error:  # noqa: BLE001, which one it is is what is looked at
            endings[type(error)] += 1

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unretrieved.append(context))
        commands = open_commands(address, 10.0)
        async with asyncio.TaskGroup() as readers:
            for _ in range(COMMANDS):
                readers.create_task(read(commands))
                await asyncio.sleep(0)
        await commands.aclose()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    assert sum(endings.values()) == COMMANDS
    assert [kind for kind in endings if not issubclass(kind, RedisError)] == []
    assert unretrieved == []
