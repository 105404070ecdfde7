"""Authentication between a process and Kafka: one description for librdkafka and Spark's source."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from streamstate.errors import Misconfigured
from streamstate.kafka.security import msk

OAUTH = "OAUTHBEARER"
EXTENSIONS = "sasl.oauthbearer.extensions"
"""A property of librdkafka, given to Spark's source too."""
_JAVA = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "PLAIN": f"{_JAVA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_JAVA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_JAVA}.scram.ScramLoginModule",
    OAUTH: f"{_JAVA}.oauthbearer.OAuthBearerLoginModule",
    msk.AWS_MSK_IAM: msk.LOGIN_MODULE,
}
_HANDLERS = {
    OAUTH: {"sasl.login.callback.handler.class": f"{_JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler"},
    msk.AWS_MSK_IAM: {"sasl.client.callback.handler.class": msk.CALLBACK_HANDLER},
}

Scalar = str | int | float | bool
Further = tuple[tuple[str, Scalar], ...]
"""Further properties: names and values."""
Properties = dict[str, Any]
"""Properties of a confluent-kafka client: scalars, and callbacks."""

_QUIET: Mapping[str, Scalar] = {"log_level": 2}
"""Errors report an unreachable broker; librdkafka would also log each of its attempts, twenty a second."""


@dataclass(frozen=True)
class Security:
    """`password`, `ca`, `certificate` and `key` (PEM) are texts, or files.

    With OAUTHBEARER, `username` and `password` are a client's id and secret, for which `token_url` gives a token.
    With AWS_MSK_IAM, the credentials of AWS in `region` give a token.
    client_properties, source_properties: further properties of librdkafka, and of the Java client.
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
    region: str = ""
    client_properties: Further = ()
    source_properties: Further = ()

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
        # Brokers of MSK take the signed tokens by OAUTHBEARER.
        mechanism = OAUTH if self._by_aws else self.mechanism
        given = _without_empty(
            {
                "security.protocol": self.protocol,
                "sasl.mechanism": mechanism if self._logs_in else "",
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
        signed: Properties = {"oauth_cb": partial(msk.token, self.region)} if self._by_aws else {}
        return {**_QUIET, **given, **signed, **dict(self.client_properties)}

    def source(self) -> dict[str, Scalar]:
        """The options of Spark's Kafka source: the Java client's properties behind `kafka.`. Raises `Misconfigured`."""
        now = self.read_files()
        properties = {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism if self._logs_in else "",
            "sasl.jaas.config": now._jaas() if self._logs_in else "",
            **(_HANDLERS.get(self.mechanism, {}) if self._logs_in else {}),
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "ssl.truststore.type": "PEM" if self.ca else "",
            "ssl.truststore.certificates": str(now.ca),
            "ssl.keystore.type": "PEM" if self.certificate else "",
            "ssl.keystore.certificate.chain": str(now.certificate),
            "ssl.keystore.key": str(now.key),
        }
        given = {**_without_empty(properties), **dict(self.source_properties)}
        return {f"kafka.{name}": value for name, value in given.items()}

    @property
    def _by_aws(self) -> bool:
        return self._logs_in and self.mechanism == msk.AWS_MSK_IAM

    @property
    def _logs_in(self) -> bool:
        return self.protocol.startswith("SASL_")

    def _jaas(self) -> str:
        names = ("clientId", "clientSecret", "scope") if self.mechanism == OAUTH else ("username", "password")
        values = (self.username, str(self.password), self.scope)
        login = {name: value for name, value in zip(names, values, strict=False) if value}
        given = [f"{name}={_quoted(value)}" for name, value in {**login, **self._extensions()}.items()]
        return f"{' '.join([_LOGIN_MODULES[self.mechanism], 'required', *given])};"

    def _extensions(self) -> dict[str, str]:
        """The extensions of OAUTHBEARER in the client's properties, as options of Java's login module."""
        text = str(dict(self.client_properties).get(EXTENSIONS, "")) if self.mechanism == OAUTH else ""
        pairs = (pair.partition("=") for pair in text.split(",") if pair)
        return {f"extension_{name.strip()}": value.strip() for name, _, value in pairs}


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


def _without_empty(properties: Mapping[str, str]) -> dict[str, Scalar]:
    return {name: value for name, value in properties.items() if value}
