"""One description of the proofs, in librdkafka's words and in Java's."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
import uvloop
from redis.exceptions import RedisError

from devkit.child_process import LOCALHOST
from services.clicks.model import APP
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import AdminConnection
from streamstate.kafka.security import Security
from streamstate.processing.limits import TimestampLimit
from streamstate.settings import StreamSettings
from streamstate.spark.task import FoldTask
from streamstate.state.redis_connections import Login
from streamstate.state.redis_reader import RedisCommands, open_commands


def test_any_password_stands_between_quotes_for_java() -> None:
    """`tests/integration/test_secured.py` logs in by each mechanism."""
    security = Security("SASL_SSL", "SCRAM-SHA-512", "reader", 'a"b\\c', "the CA")
    assert security.client()["sasl.password"] == 'a"b\\c'
    options = security.source()
    assert str(options["kafka.sasl.jaas.config"]).endswith(
        'ScramLoginModule required username="reader" password="a\\"b\\\\c";'
    )
    assert (options["kafka.ssl.truststore.type"], options["kafka.ssl.truststore.certificates"]) == ("PEM", "the CA")
    assert "sasl.mechanism" not in Security().client()


def test_a_changed_file_is_read_by_the_next_client_and_one_that_cannot_be_used_is_not(tmp_path: Path) -> None:
    (password := tmp_path / "password").write_text("first\n")
    (ca := tmp_path / "ca.crt").write_text("")
    connection = AdminConnection(f"{LOCALHOST}:1", Security("SASL_SSL", "SCRAM-SHA-512", "reader", password, ca))
    first = connection.admin()
    assert (connection.properties["sasl.password"], connection.admin()) == ("first", first)
    password.write_text("second")
    second = connection.admin()
    assert second is not first
    assert connection.properties["sasl.password"] == "second"
    ca.write_text("-----BEGIN CERTIFICATE-----\nno base 64\n-----END CERTIFICATE-----\n")
    assert connection.admin() is second
    assert connection.properties["sasl.password"] == "second"
    password.unlink()
    assert connection.admin() is second
    with pytest.raises(Misconfigured, match="password cannot be read"):
        AdminConnection(f"{LOCALHOST}:1", Security("SASL_SSL", "PLAIN", "reader", password))


def test_what_tasks_get_shows_no_secret(tmp_path: Path) -> None:
    """Errors of tasks may print the value."""
    (password := tmp_path / "password").write_text("hidden")
    login = Login("reader", password)
    security = Security("SASL_SSL", "SCRAM-SHA-512", "reader", password, key="hidden").read_files()
    limit = TimestampLimit()
    settings = StreamSettings.model_validate({"redis_username": "reader", "redis_password": password})
    task = FoldTask(APP, {}, {}, limit, {}, security, settings)
    assert security.password == "hidden"
    assert "hidden" not in repr(task)
    options = login.options(tls=False)
    assert options["credential_provider"].get_credentials() == ("reader", "hidden")
    assert "hidden" not in repr(options)


# Reads on an event loop, from a server that resets every connection.

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
