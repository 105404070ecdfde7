"""One description of the proofs, in librdkafka's words and in Java's."""

from pathlib import Path

import pytest

from devkit.child_process import LOCALHOST
from services.clicks.model import APP
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import AdminConnection
from streamstate.kafka.security import Security
from streamstate.processing.limits import TimestampLimit
from streamstate.settings import StreamSettings
from streamstate.spark.task import FoldTask
from streamstate.state.redis_connections import Login


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
