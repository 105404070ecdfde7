"""One description of the proofs, in librdkafka's words and in Java's."""

from streamstate.kafka.security import OPEN, Security

SCRAM = Security("SASL_SSL", "SCRAM-SHA-512", "reader", 'a"b\\c', "the CA")


def test_nothing_is_proved_on_a_laptop() -> None:
    assert OPEN.client() == {"security.protocol": "PLAINTEXT"}
    assert OPEN.source() == {"kafka.security.protocol": "PLAINTEXT"}


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


def test_secrets_are_not_shown() -> None:
    assert "b\\c" not in repr(SCRAM)
    assert "my key" not in repr(Security("SSL", key="my key"))
