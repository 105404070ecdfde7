"""One description of the proofs, in librdkafka's words and in Java's."""

import asyncio
import json
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from zipfile import ZipFile

import pytest
import uvloop
from redis.exceptions import RedisError

from devkit.servers.child_process import LOCALHOST
from services.clicks.model import APP
from streamstate.deployment.connections import KafkaSettings
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import AdminConnection
from streamstate.kafka.security import Security
from streamstate.kafka.security.properties import ALLOWED
from streamstate.processing.limits import TimestampLimit
from streamstate.settings import StreamSettings, load
from streamstate.spark.jars import of_mechanism
from streamstate.spark.task import FoldTask
from streamstate.state.redis_connections import Login
from streamstate.state.redis_reader import RedisCommands, open_commands
from tests import signer as signing


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


def test_extensions_of_a_token_are_given_to_java_too() -> None:
    extensions = ("sasl.oauthbearer.extensions", "logicalCluster=lkc-1,identityPoolId=pool-1")
    security = Security("SASL_SSL", "OAUTHBEARER", "reader", "word", client_properties=(extensions,))
    assert str(security.source()["kafka.sasl.jaas.config"]).endswith(
        'clientSecret="word" extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";'
    )


# Further properties of clients.


def test_properties_are_given_to_the_clients_that_know_them() -> None:
    given = {"kafka_properties": {"client.rack": "a", "linger.ms": 50}, "kafka_source_properties": {"client.rack": "b"}}
    security = KafkaSettings.model_validate(given).security
    assert {"client.rack": "a", "linger.ms": 50}.items() <= security.client().items()
    assert security.source() == {"kafka.security.protocol": "PLAINTEXT", "kafka.client.rack": "b"}
    hash(security)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bootstrap.servers", "bootstrap.servers is given by KAFKA"),
        ("group.id", "group.id is given by GROUP"),
        ("group.instance.id", "group.instance.id is given by INSTANCE"),
        ("sasl.password", "sasl.password is given by KAFKA_PASSWORD"),
        ("ssl.ca.location", "ssl.ca.location is given by KAFKA_CA"),
        ("ssl.key.pem", "ssl.key.pem is given by KAFKA_KEY"),
        ("ssl.keystore.password", "ssl.keystore.password is given by KAFKA_CERTIFICATE and KAFKA_KEY"),
        ("isolation.level", "isolation.level may not be set; .*what else would you need"),
        ("partitioner", "partitioner may not be set"),
        ("error_cb", "error_cb may not be set"),
        ("sasl.oauthbearer.assertion.private.key.passphrase", "may not be set"),
        ("clientrack", r"clientrack may not be set; did you mean client.rack"),
        *(
            (name, f"{name} may not be set")
            for name in (
                "enable.ssl.certificate.verification",
                "ssl.endpoint.identification.algorithm",
                "plugin.library.paths",
                "message.timeout.ms",
                "delivery.timeout.ms",
                "debug",
                "ssl.engine.location",
                "ssl.providers",
                "sasl.kerberos.kinit.cmd",
                "security.providers",
                "metric.reporters",
                "transaction.timeout.ms",
            )
        ),
        ("kafka.client.rack", "name the property without kafka.: client.rack"),
        ("Client.Rack", "takes only the characters"),
    ],
)
@pytest.mark.parametrize("setting", ["KAFKA_PROPERTIES", "KAFKA_SOURCE_PROPERTIES"])
def test_a_property_with_a_variable_of_its_own_is_refused(
    setting: str, name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"STREAMSTATE_{setting}", json.dumps({name: "hidden"}))
    with pytest.raises(Misconfigured, match=f"STREAMSTATE_{setting}.*{reason}") as refused:
        load(KafkaSettings)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"default.api.timeout.ms": 1}, 'No such configuration property: "default.api.timeout.ms"'),
        ({"linger.ms": "hidden"}, 'Invalid value for configuration property "queue.buffering.max.ms"'),
        ({"fetch.max.bytes": 1}, "`fetch.max.bytes` must be >= `message.max.bytes`"),
    ],
)
def test_a_property_that_librdkafka_refuses_is_named(
    given: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMSTATE_KAFKA_PROPERTIES", json.dumps(given))
    with pytest.raises(Misconfigured, match=reason) as refused:
        load(KafkaSettings)
    assert "hidden" not in str(refused.value)


def test_the_page_names_all_properties_that_may_be_set() -> None:
    page = Path("docs/security.md").read_text()
    assert [name for name in sorted(ALLOWED) if f"`{name}`" not in page] == []


# AWS MSK IAM.

AWS = {"kafka_security": "SASL_SSL", "kafka_mechanism": "AWS_MSK_IAM", "kafka_region": "eu-central-1"}
SIGNER = """
class MSKAuthTokenProvider:
    @staticmethod
    def generate_auth_token(region):
        return f"signed for {region}", 1_800_000_000_500
"""


@pytest.fixture
def signer(tmp_path: Path) -> Iterator[None]:
    with signing.installed(SIGNER, tmp_path):
        yield


@pytest.mark.usefixtures("signer")
def test_a_signed_token_logs_in_and_java_has_a_module_of_its_own() -> None:
    """`tests/integration/test_secured.py` logs in by such tokens."""
    security = KafkaSettings.model_validate(AWS).security
    client, source = security.client(), security.source()
    assert client["sasl.mechanism"] == "OAUTHBEARER"
    assert client["oauth_cb"]("") == ("signed for eu-central-1", 1_800_000_000.5)
    assert source["kafka.sasl.mechanism"] == "AWS_MSK_IAM"
    assert source["kafka.sasl.jaas.config"] == "software.amazon.msk.auth.iam.IAMLoginModule required;"
    assert "IAMClientCallbackHandler" in str(source["kafka.sasl.client.callback.handler.class"])


def test_without_the_signer_the_package_is_named() -> None:
    with pytest.raises(ValueError, match="pip install aws-msk-iam-sasl-signer-python"):
        KafkaSettings.model_validate(AWS)


@pytest.mark.usefixtures("signer")
def test_a_region_is_needed_and_a_password_is_not_accepted() -> None:
    for wrong in ({"kafka_region": ""}, {"kafka_username": "reader"}):
        with pytest.raises(ValueError, match="needs KAFKA_REGION, and must not have KAFKA_USERNAME and KAFKA_PASSWORD"):
            KafkaSettings.model_validate(AWS | wrong)


def test_the_jar_of_java_is_found_or_named(tmp_path: Path) -> None:
    (tmp_path / "aws-msk-iam-auth-2.3.2.jar").write_bytes(b"no archive")
    with pytest.raises(Misconfigured, match=f"aws-msk-iam-auth-VERSION-all.jar .* in STREAMSTATE_JARS, {tmp_path}"):
        of_mechanism("AWS_MSK_IAM", tmp_path)
    with ZipFile(complete := tmp_path / "aws-msk-iam-auth-2.3.2-all.jar", "w") as jar:
        jar.writestr("software/amazon/msk/auth/iam/IAMLoginModule.class", b"")
    assert of_mechanism("AWS_MSK_IAM", tmp_path) == [complete]
    assert of_mechanism("PLAIN", tmp_path) == []


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
