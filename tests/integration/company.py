"""Kafka and Redis of a company: encrypted connections, and users with the granted rights only."""

import base64
import json
import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from devkit.servers.child_process import LOCALHOST, Child, free_port
from devkit.servers.kafka import Kafka
from streamstate.app import App
from streamstate.kafka.security import rights as kafka
from streamstate.state import redis_rights as redis
from streamstate.state.redis_connections import Client, Login, connect
from tests.certificates import Authority
from tests.redis_servers import node
from tests.serving import Served
from tests.waiting import now_ms

AUDIENCE = "kafka"
DELETIONS = "user-deletions"
REAUTH_S = 2
"""Kafka ends connections by SCRAM that do not log in again within this time."""

_SNAKE = re.compile(r"(?<!^)([A-Z])")
_JAVA = "org.apache.kafka.common.security"
_BY_TOKEN = "listener.name.sasl_ssl.oauthbearer.sasl"
PROPERTIES = f"""
listeners=PLAINTEXT://{{{{host}}}}:{{{{port}}}},CONTROLLER://{{{{host}}}}:{{{{controller}}}},SASL_SSL://{{{{host}}}}:{{sasl}},SSL://{{{{host}}}}:{{ssl}}
advertised.listeners=PLAINTEXT://{{{{host}}}}:{{{{port}}}},SASL_SSL://{{{{host}}}}:{{sasl}},SSL://{{{{host}}}}:{{ssl}}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms={{reauth_ms}}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={_JAVA}.scram.ScramLoginModule required;
{_BY_TOKEN}.jaas.config={_JAVA}.oauthbearer.OAuthBearerLoginModule required;
{_BY_TOKEN}.server.callback.handler.class={_JAVA}.oauthbearer.OAuthBearerValidatorCallbackHandler
{_BY_TOKEN}.oauthbearer.jwks.endpoint.url={{issuer}}/keys
{_BY_TOKEN}.oauthbearer.expected.audience={AUDIENCE}
listener.name.ssl.ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={{keystore}}
ssl.truststore.type=PEM
ssl.truststore.location={{truststore}}
"""


class Issuer:
    """Gives a token to the client `client` with `secret`, and the keys that have signed it."""

    def __init__(self, client: str, secret: str) -> None:
        self._client = client
        self._key = rsa.generate_private_key(65_537, 2_048)
        self._served = Served(f"{LOCALHOST}:{free_port()}", self._answer)
        self._secret = secret
        self.url = f"http://{self._served.address}"
        self.stop = self._served.stop

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if environ["PATH_INFO"] == "/keys":
            answer = self._keys()
        else:
            given = base64.b64encode(f"{self._client}:{self._secret}".encode()).decode()
            answer = self._token() if environ.get("HTTP_AUTHORIZATION") == f"Basic {given}" else {}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    def _keys(self) -> Any:
        jwk = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**jwk, "kid": "1", "alg": "RS256", "use": "sig"}]}

    def _token(self) -> Any:
        now = now_ms() // 1_000
        claims = {"sub": self._client, "aud": AUDIENCE, "iat": now, "exp": now + 3_600, "scope": "kafka"}
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "1"})
        return {"access_token": token, "token_type": "Bearer", "expires_in": 3_600}


@dataclass
class Company:
    """Its servers, and what an admin of theirs may do."""

    kafka: Kafka
    redis: Child
    issuer: Issuer
    authority: Authority
    sasl: str
    ssl: str
    redis_url: str
    redis_admin: Client

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka.bootstrap})

    def set_password(self, user: str, password: str) -> None:
        """Kafka's, by SCRAM: the former one is refused from now on."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        known = UserScramCredentialUpsertion(user, info, password.encode())
        admin = self.admin
        admin.alter_user_scram_credentials([known])[user].result()

    def tell_redis(self, command: str) -> None:
        """A command of its admin."""
        self.redis_admin.execute_command(*command.split())  # type: ignore[no-untyped-call]

    def grant(self, app: App, principal: str) -> None:
        """What the documents list for `app`, and nothing else, to `principal` of Kafka and the user of Redis."""
        rights = [binding for right in kafka.of_service(app, DELETIONS) for binding in _bindings(right, principal)]
        admin = self.admin
        for granted in admin.create_acls(rights).values():
            granted.result()
        rule = redis.rule(app.name, redis.keys(app.name), redis.of_service())
        self.tell_redis(f"ACL SETUSER {rule}")


def _bindings(right: kafka.Right, principal: str) -> list[AclBinding]:
    """As Kafka's client has it."""
    kind = ResourceType[right.kind.upper().replace("-", "_")]
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    operations = [AclOperation[_SNAKE.sub(r"_\1", name).upper()] for name in right.operations]
    return [AclBinding(kind, right.name, literal, principal, "*", operation, allow) for operation in operations]


def start(home: Path, jars: Path, setenv: Callable[[str, str], None], issuer: Issuer, stack: ExitStack) -> Company:
    """Start both servers, with everything of theirs in `home`; `stack` ends them."""
    authority, sasl, ssl, port = Authority(home / "ca"), free_port(), free_port(), free_port()
    certificate, key = authority.issue("servers", LOCALHOST)
    keystore = home / "keystore.pem"
    keystore.write_text(key.read_text() + certificate.read_text())
    files = {"keystore": keystore, "truststore": authority.path}
    properties = PROPERTIES.format(sasl=sasl, ssl=ssl, issuer=issuer.url, reauth_ms=1_000 * REAUTH_S, **files)
    # Kafka asks only issuers that its operator names.
    setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/keys")
    broker = Kafka(home / "kafka", free_port(), jars, properties)
    tls = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(authority.path)]
    server = node(home / "redis", port, *tls, "--port", "0", "--tls-port", str(port))
    for child in (broker, server):
        child.start()
        stack.callback(child.kill)
    url, own = f"rediss://{LOCALHOST}:{port}/0", authority.issue("admin", LOCALHOST)
    admin = connect(url, 5.0, Login(ca=authority.path, certificate=own[0], key=own[1]))
    return Company(broker, server, issuer, authority, f"{LOCALHOST}:{sasl}", f"{LOCALHOST}:{ssl}", url, admin)
