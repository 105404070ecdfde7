"""Client properties given by configuration, by the names of librdkafka and of the Java client of Spark's source."""

from collections.abc import Mapping
from difflib import get_close_matches

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

ALLOWED = frozenset({
    "api.version.request.timeout.ms", "batch.num.messages", "batch.size", "broker.address.family", "broker.address.ttl",
    "check.crcs", "client.dns.lookup", "client.id", "client.rack", "compression.codec", "compression.level",
    "compression.type", "connections.max.idle.ms", "coordinator.query.interval.ms", "default.api.timeout.ms",
    "enable.metrics.push", "enable.sparse.connections", "fetch.error.backoff.ms", "fetch.max.bytes",
    "fetch.max.wait.ms", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms",
    "linger.ms", "max.partition.fetch.bytes", "max.poll.records", "message.copy.max.bytes", "message.max.bytes",
    "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy",
    "queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms",
    "queued.max.messages.kbytes", "queued.min.messages", "receive.buffer.bytes", "receive.message.max.bytes",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms",
    "retry.backoff.ms", "sasl.kerberos.keytab", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal",
    "sasl.kerberos.service.name", "sasl.oauthbearer.extensions", "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "socket.keepalive.enable",
    "socket.max.fails", "socket.nagle.disable", "socket.receive.buffer.bytes", "socket.send.buffer.bytes",
    "socket.timeout.ms", "ssl.cipher.suites", "ssl.crl.location", "ssl.curves.list", "ssl.enabled.protocols",
    "ssl.protocol", "ssl.sigalgs.list", "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.interval.ms", "topic.metadata.refresh.sparse",
})  # fmt: skip
"""Properties of speed, sizes, names and networks. Counts, keys and safety do not rest on them; none loads code."""


def require_free(properties: Mapping[str, object]) -> None:
    """Raise ValueError for a property that is not `ALLOWED`, with the name of its variable, if it has one."""
    for name in properties:
        of_file = (variable for begin, variable in _VARIABLES_OF_FILES.items() if name.startswith(begin))
        if variable := _VARIABLES.get(name) or next(of_file, None):
            msg = f"{name} is given by {variable}"
            raise ValueError(msg)
        if name.startswith("kafka."):
            msg = f"name the property without kafka.: {name.removeprefix('kafka.')}"
            raise ValueError(msg)
        if name not in ALLOWED:
            near = get_close_matches(name, sorted(ALLOWED))
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            msg = f"{name} may not be set; {hint}docs/security.md names all that may: what else would you need?"
            raise ValueError(msg)


def require_known(properties: Mapping[str, str | int | float | bool]) -> None:
    """Raise ValueError where librdkafka refuses `properties`; no client is connected."""
    if properties:
        try:
            Producer({"log_level": 0, **properties})
            Consumer({"log_level": 0, "group.id": "none", **properties}).close()
        except KafkaException as error:
            raise ValueError(error.args[0].str()) from None
