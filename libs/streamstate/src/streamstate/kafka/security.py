"""How a process proves to Kafka who it is, and Kafka to it: one description for librdkafka and for Spark's source."""

from dataclasses import dataclass, field

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class Security:
    """`ca`, `certificate` and `key` are PEM texts: Spark's executors have no such files."""

    protocol: str = "PLAINTEXT"
    mechanism: str = "SCRAM-SHA-512"
    username: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)

    def client(self) -> dict[str, str | int | float | bool]:
        """The properties of a confluent-kafka client."""
        return _without_empty(
            {
                "security.protocol": self.protocol,
                "sasl.mechanism": self.mechanism if self._logs_in else "",
                "sasl.username": self.username,
                "sasl.password": self.password,
                "ssl.ca.pem": self.ca,
                "ssl.certificate.pem": self.certificate,
                "ssl.key.pem": self.key,
            }
        )

    def source(self) -> dict[str, str | int | float | bool]:
        """The options of Spark's Kafka source: the Java client's properties behind `kafka.`."""
        properties = {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism if self._logs_in else "",
            "sasl.jaas.config": self._jaas() if self._logs_in else "",
            "ssl.truststore.type": "PEM" if self.ca else "",
            "ssl.truststore.certificates": self.ca,
            "ssl.keystore.type": "PEM" if self.certificate else "",
            "ssl.keystore.certificate.chain": self.certificate,
            "ssl.keystore.key": self.key,
        }
        return _without_empty({f"kafka.{name}": value for name, value in properties.items()})

    @property
    def _logs_in(self) -> bool:
        return self.protocol.startswith("SASL_")

    def _jaas(self) -> str:
        module = _LOGIN_MODULES[self.mechanism]
        return f"{module} required username={_quoted(self.username)} password={_quoted(self.password)};"


OPEN = Security()
"""No proof and no encryption, as on a laptop."""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _without_empty(properties: dict[str, str]) -> dict[str, str | int | float | bool]:
    return {name: value for name, value in properties.items() if value}
