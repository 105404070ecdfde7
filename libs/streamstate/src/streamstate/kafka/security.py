"""Authentication between a process and Kafka: one description for librdkafka and Spark's source."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from streamstate.errors import Misconfigured

OAUTH = "OAUTHBEARER"
_JAVA = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "PLAIN": f"{_JAVA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_JAVA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_JAVA}.scram.ScramLoginModule",
    OAUTH: f"{_JAVA}.oauthbearer.OAuthBearerLoginModule",
}

Properties = dict[str, str | int | float | bool]


@dataclass(frozen=True)
class Security:
    """`password`, `ca`, `certificate` and `key` (PEM) are texts, or files.

    With OAUTHBEARER, `username` and `password` are a client's id and secret, for which `token_url` gives a token.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = "SCRAM-SHA-512"
    username: str = ""
    password: str | Path = field(default="", repr=False)
    ca: str | Path = ""
    certificate: str | Path = ""
    key: str | Path = field(default="", repr=False)
    token_url: str = ""
    scope: str = ""

    def read_files(self) -> "Security":
        """The same with the present contents of the files as texts. Raises `Misconfigured`."""
        password = _text(self.password).strip("\r\n")
        return replace(
            self, password=password, ca=_text(self.ca), certificate=_text(self.certificate), key=_text(self.key)
        )

    def client(self) -> Properties:
        """The properties of a confluent-kafka client, with the present file contents. Raises `Misconfigured`."""
        now = self.read_files()
        by_token = self._logs_in and self.mechanism == OAUTH
        user = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
        username, password = user if by_token else ("sasl.username", "sasl.password")
        return _without_empty(
            {
                "security.protocol": self.protocol,
                "sasl.mechanism": self.mechanism if self._logs_in else "",
                username: self.username,
                password: str(now.password),
                "sasl.oauthbearer.method": "oidc" if by_token else "",
                "sasl.oauthbearer.token.endpoint.url": self.token_url,
                "sasl.oauthbearer.scope": self.scope,
                "ssl.ca.pem": str(now.ca),
                "ssl.certificate.pem": str(now.certificate),
                "ssl.key.pem": str(now.key),
            }
        )

    def source(self) -> Properties:
        """The options of Spark's Kafka source: the Java client's properties behind `kafka.`. Raises `Misconfigured`."""
        now = self.read_files()
        by_token = self._logs_in and self.mechanism == OAUTH
        properties = {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism if self._logs_in else "",
            "sasl.jaas.config": now._jaas() if self._logs_in else "",
            "sasl.login.callback.handler.class": f"{_JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler"
            if by_token
            else "",
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "ssl.truststore.type": "PEM" if self.ca else "",
            "ssl.truststore.certificates": str(now.ca),
            "ssl.keystore.type": "PEM" if self.certificate else "",
            "ssl.keystore.certificate.chain": str(now.certificate),
            "ssl.keystore.key": str(now.key),
        }
        return _without_empty({f"kafka.{name}": value for name, value in properties.items()})

    @property
    def _logs_in(self) -> bool:
        return self.protocol.startswith("SASL_")

    def _jaas(self) -> str:
        names = ("clientId", "clientSecret", "scope") if self.mechanism == OAUTH else ("username", "password")
        values = (self.username, str(self.password), self.scope)
        given = [f"{name}={_quoted(value)}" for name, value in zip(names, values, strict=False) if value]
        return f"{_LOGIN_MODULES[self.mechanism]} required {' '.join(given)};"


OPEN = Security()
"""No proof and no encryption, as on a laptop."""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(given: str | Path) -> str:
    try:
        return given.read_text() if isinstance(given, Path) else given
    except OSError as error:
        msg = f"{given} cannot be read: {error.strerror}"
        raise Misconfigured(msg) from error


def _without_empty(properties: dict[str, str]) -> Properties:
    return {name: value for name, value in properties.items() if value}
