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
from streamstate.state.redis_link import Login

SCRAM = Security("SASL_SSL", "SCRAM-SHA-512", "reader", 'a"b\\c', "the CA")


def test_a_user_logs_in_over_tls() -> None:
    assert SCRAM.client() == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reader",
        "sasl.password": 'a"b\\c',
        "ssl.ca.pem": "the CA",
    }
    assert SCRAM.source() == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="reader" password="a\\"b\\\\c";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "the CA",
    }


def test_a_certificate_is_shown() -> None:
    mutual = Security("SSL", ca="the CA", certificate="mine", key="my key")
    assert mutual.client() == {
        "security.protocol": "SSL",
        "ssl.ca.pem": "the CA",
        "ssl.certificate.pem": "mine",
        "ssl.key.pem": "my key",
    }
    assert {name: value for name, value in mutual.source().items() if "keystore" in name} == {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "mine",
        "kafka.ssl.keystore.key": "my key",
    }


def test_a_client_gets_tokens_for_its_id_and_secret() -> None:
    by_token = Security(
        "SASL_SSL", "OAUTHBEARER", "reader", "word", "the CA", token_url="https://issuer/token", scope="k"
    )
    assert by_token.client() == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "reader",
        "sasl.oauthbearer.client.secret": "word",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        "sasl.oauthbearer.scope": "k",
        "ssl.ca.pem": "the CA",
    }
    assert by_token.source() == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="reader" clientSecret="word" scope="k";',
        "kafka.sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "the CA",
    }


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
