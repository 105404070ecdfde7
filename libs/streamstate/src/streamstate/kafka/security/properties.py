"""Client properties given by configuration, by the names of librdkafka and of the Java client of Spark's source."""

import re
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, Producer

_VARIABLES = {
    "bootstrap.servers": "KAFKA",
    "metadata.broker.list": "KAFKA",
    "security.protocol": "KAFKA_SECURITY",
    "sasl.mechanism": "KAFKA_MECHANISM",
    "sasl.mechanisms": "KAFKA_MECHANISM",
    "sasl.oauthbearer.method": "KAFKA_MECHANISM",
    "sasl.oauthbearer.config": "KAFKA_MECHANISM",
    "sasl.login.callback.handler.class": "KAFKA_MECHANISM",
    "sasl.client.callback.handler.class": "KAFKA_MECHANISM",
    "sasl.username": "KAFKA_USERNAME",
    "sasl.oauthbearer.client.id": "KAFKA_USERNAME",
    "sasl.jaas.config": "KAFKA_USERNAME and KAFKA_PASSWORD",
    "sasl.password": "KAFKA_PASSWORD",
    "sasl.oauthbearer.client.secret": "KAFKA_PASSWORD",
    "sasl.oauthbearer.token.endpoint.url": "KAFKA_TOKEN_URL",
    "sasl.oauthbearer.scope": "KAFKA_SCOPE",
    "group.id": "GROUP",
    "transactional.id": "GROUP",
    "group.instance.id": "INSTANCE",
    "session.timeout.ms": "SESSION_TIMEOUT_MS",
    "heartbeat.interval.ms": "SESSION_TIMEOUT_MS",
}
_VARIABLES_OF_FILES = {
    "ssl.ca.": "KAFKA_CA",
    "ssl.truststore.": "KAFKA_CA",
    "ssl.certificate.": "KAFKA_CERTIFICATE",
    "ssl.keystore.": "KAFKA_CERTIFICATE and KAFKA_KEY",
    "ssl.key.": "KAFKA_KEY",
}
"""The variables of properties that begin like this: passwords and keys are files."""

_FIXED = frozenset({
    "acks", "allow.auto.create.topics", "auto.commit.enable", "auto.commit.interval.ms", "auto.offset.reset",
    "delivery.report.only.error", "enable.auto.commit", "enable.auto.offset.store", "enable.gapless.guarantee",
    "enable.idempotence", "enable.partition.eof", "group.protocol", "group.remote.assignor",
    "interceptor.classes", "isolation.level", "key.deserializer", "logger", "max.in.flight",
    "max.in.flight.requests.per.connection", "max.poll.interval.ms", "message.send.max.retries",
    "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms", "on_commit", "on_delivery",
    "partition.assignment.strategy", "partitioner", "partitioner.class", "request.required.acks", "retries",
    "value.deserializer",
})  # fmt: skip
"""Properties on which the counts and the placing of keys rest."""

_SECRET = re.compile("password|passphrase|secret|private")


def require_free(properties: Mapping[str, object]) -> None:
    """Raise ValueError for a property that the project sets, with the name of its variable, if it has one."""
    for name in properties:
        of_file = (variable for begin, variable in _VARIABLES_OF_FILES.items() if name.startswith(begin))
        if variable := _VARIABLES.get(name) or next(of_file, None):
            msg = f"{name} is given by {variable}"
            raise ValueError(msg)
        if name in _FIXED or name.endswith("_cb"):
            msg = f"{name} cannot be changed: the counts rest on its value"
            raise ValueError(msg)
        if _SECRET.search(name):
            msg = f"{name} is a secret, and secrets are files: KAFKA_PASSWORD, KAFKA_KEY"
            raise ValueError(msg)
        if name.startswith("kafka."):
            msg = f"name the property without kafka.: {name.removeprefix('kafka.')}"
            raise ValueError(msg)


def require_known(properties: Mapping[str, str | int | float | bool]) -> None:
    """Raise ValueError where librdkafka refuses `properties`; no client is connected."""
    if properties:
        try:
            Producer({"log_level": 0, **properties})
            Consumer({"log_level": 0, "group.id": "none", **properties}).close()
        except KafkaException as error:
            raise ValueError(error.args[0].str()) from None
