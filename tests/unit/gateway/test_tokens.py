"""JWTs of an issuer, whose keys are served by a real server."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from werkzeug.test import Client, TestResponse

from devkit.servers.child_process import free_port
from services.gateway.access import tokens
from services.gateway.settings import AccessSettings
from streamstate.web.server import asgi
from streamstate.web.server.asgi import Asgi
from tests.listening import Listener
from tests.serving import Loop, Served
from tests.unit.gateway.deployment import FAN, USER, Services
from tests.waiting import now_ms, now_s, pause, until, until_equal, until_fits

ISSUER, AUDIENCE = "https://issuer.company", "profiles"
MINE = f"/v1/users/{USER}"


class Issuer:
    """Signs, and serves the public keys that it has now."""

    def __init__(self) -> None:
        self.private = {"first": rsa.generate_private_key(65_537, 2_048)}
        self.asked = self.most_sent = 0
        self.document: list[dict[str, Any]] = []
        self.harm = ""
        self.served = Served(f"127.0.0.1:{free_port()}", self._answer)

    @property
    def jwks(self) -> str:
        return f"http://{self.served.address}/jwks"

    def _answer(self, _environ: Any, start_response: Any) -> Iterable[bytes]:
        self.asked += 1
        start_response("200 OK", [("Content-Type", "application/json")])
        if self.harm:
            return self._harm()
        found = self.document or [
            {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "alg": "RS256", "use": "sig"}
            for name, key in self.private.items()
        ]
        return [json.dumps({"keys": found}).encode()]

    def _harm(self) -> Iterator[bytes]:
        part, sent = b" " * (100_000 if self.harm == "endless" else 1), 0
        while True:
            sent += len(part)
            self.most_sent = max(self.most_sent, sent)
            yield part
            if self.harm == "slow":
                pause(0.1)

    def token(self, kid: str = "first", named: str = "", algorithm: str = "RS256", **claims: Any) -> str:
        return jwt.encode(self.claims(**claims), self.private[kid], algorithm, headers={"kid": named or kid})

    @staticmethod
    def claims(**claims: Any) -> dict[str, Any]:
        usual = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "someone",
            "exp": now_ms() / 1_000 + 600,
            "scope": "openid read",
        }
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.served.stop()


Ask = Callable[..., TestResponse]


@pytest.fixture
def gateway(issuer: Issuer, deployment: Services, request: pytest.FixtureRequest, tmp_path: Path) -> Asgi:
    """It accepts the issuer's tokens; instances have no access of their own here."""
    (tokens := tmp_path / "tokens").write_text("a" * 32)
    limits = {"requests_per_s": 1_000, "cost_per_s": 10_000, **getattr(request, "param", {})}
    deployment.access = AccessSettings(jwt_jwks=issuer.jwks, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, **limits)
    return deployment.app(access="required", internal_tokens=tokens)


@pytest.fixture
def ask(gateway: Asgi, loop: Loop) -> Ask:
    client = Client(loop.wsgi(gateway))

    def get(path: str, token: str) -> TestResponse:
        return client.get(path, headers={"Authorization": f"Bearer {token}"})

    return get


def test_a_token_lets_its_subject_do_what_its_scopes_say(ask: Ask, issuer: Issuer) -> None:
    assert ask(MINE, issuer.token()).status_code == 200
    assert ask("/v1/plays", issuer.token()).status_code == 403
    assert ask("/v1/plays", issuer.token(scope=["explore"])).status_code == 200
    assert ask(MINE, issuer.token(scope="explore")).status_code == 403
    assert ask(MINE, issuer.token(scope="readers ADMIN")).status_code == 403
    assert ask(MINE, issuer.token(scope={"read": 1})).status_code == 403
    assert ask("/v1/metrics/processors", issuer.token(scope="admin")).status_code == 200


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _part(value: dict[str, Any]) -> str:
    return _encoded(json.dumps(value))


def _unsigned(issuer: Issuer) -> str:
    return f"{_part({'alg': 'none', 'kid': 'first'})}.{_part(issuer.claims())}."


def _signed_with_the_public_key(issuer: Issuer) -> str:
    public = issuer.private["first"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{_part({'alg': 'HS256', 'kid': 'first'})}.{_part(issuer.claims())}"
    signature = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


_OTHER = rsa.generate_private_key(65_537, 2_048)


def _signed(issuer: Issuer, claims: Any) -> str:
    """Anything, signed as a JWT is."""
    return jwt.PyJWS().encode(json.dumps(claims).encode(), issuer.private["first"], "RS256", {"kid": "first"})


def _by_another(issuer: Issuer) -> str:
    return jwt.encode(issuer.claims(), _OTHER, algorithm="RS256", headers={"kid": "first"})


def _changed(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    return f"{head}.{_part(issuer.claims(scope='admin'))}.{signature}"


FORGED: dict[str, Callable[[Issuer], str]] = {
    "unsigned": _unsigned,
    "the public key as a secret": _signed_with_the_public_key,
    "another key": _by_another,
    "changed claims": _changed,
    "another algorithm": lambda issuer: issuer.token(algorithm="RS512"),
    "expired": lambda issuer: issuer.token(exp=now_ms() / 1_000 - 60),
    "never expires": lambda issuer: issuer.token(exp=None),
    "not yet": lambda issuer: issuer.token(nbf=now_ms() / 1_000 + 60),
    "another audience": lambda issuer: issuer.token(aud="another"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "another issuer": lambda issuer: issuer.token(iss="https://evil.example"),
    "no subject": lambda issuer: issuer.token(sub=None),
    "another key, and no key id": lambda issuer: jwt.encode(issuer.claims(), _OTHER, algorithm="RS256"),
    "expires at no number": lambda issuer: issuer.token(exp="Infinity"),
    "expires at infinity": lambda issuer: _signed(issuer, issuer.claims(exp=float("inf"))),
    "expires in a list": lambda issuer: issuer.token(exp=[1]),
    "a subject that is no text": lambda issuer: issuer.token(sub="\ud800"),
    "claims that are a list": lambda issuer: _signed(issuer, [1]),
    "a head that is deep": lambda issuer: f"{_encoded('[' * 5_000)}.{_part(issuer.claims())}.AA",
    "a key id that is no text": lambda issuer: f"{_part({'alg': 'RS256', 'kid': 1})}.{_part(issuer.claims())}.AA",
    "an unknown key": lambda issuer: issuer.token(named="unknown"),
    "no token": lambda _: "a.b.c",
    "dots": lambda _: "..",
}


def test_a_token_that_is_not_of_the_issuer_is_refused(ask: Ask, issuer: Issuer) -> None:
    for name, forged in FORGED.items():
        response = ask(MINE, forged(issuer))
        assert response.status_code == 401, name
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
        assert "codec" not in response.get_data(as_text=True), name
        assert str(USER) not in response.get_data(as_text=True).replace(MINE, "")
    assert ask(MINE, issuer.token()).status_code == 200


def test_new_keys_are_fetched_when_a_token_names_one_and_old_ones_end(
    ask: Ask, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = issuer.token()
    assert ask(MINE, first).status_code == 200
    asked = issuer.asked
    for _ in range(5):
        assert ask(MINE, FORGED["an unknown key"](issuer)).status_code == 401
    assert issuer.asked == asked, "unknown keys let the issuer be asked again and again"
    monkeypatch.setattr(tokens, "LEAST_S", 0.0)
    issuer.private = {"second": rsa.generate_private_key(65_537, 2_048)}
    assert ask(MINE, first).status_code == 200
    refused = ask(MINE, issuer.token("second"))
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    until_equal(lambda: ask(MINE, issuer.token("second")).status_code, 200)
    monkeypatch.setattr(tokens, "LEAST_S", 5.0)
    assert ask(MINE, first).status_code == 401


def test_known_keys_serve_while_the_issuer_is_away(ask: Ask, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "LEAST_S", 0.0)
    issuer.served.stop()
    assert ask(MINE, FORGED["an unknown key"](issuer)).status_code == 503
    assert ask(MINE, issuer.token()).status_code == 200


OTHERS = [
    f"/v1/users/{FAN}", f"/v1/users/{FAN}/metrics", f"/v1/users/{FAN}/recommendations/artists", "/v1/artists/1",
    "/v1/plays", f"/v1/many?users={USER}&users={FAN}", f"/v1/many?metrics={FAN}",
    f"/v1/many?metrics={USER}&artists={USER}",
    f"/v1/users/{USER}%2f..%2f{FAN}", f"/v1/users/{USER}/../{FAN}", f"/v1/users//{FAN}", f"/v1/users/0{USER}",
    "/v1/metrics/processors", f"/v1/route/metrics/{USER}", "/openapi.json",
    f"/v1/users/{FAN}/export", f"{MINE}/deletion",
]  # fmt: skip
OWN = [
    MINE, f"{MINE}/metrics", f"{MINE}/recent", f"{MINE}/recommendations/artists", f"/v1/many?metrics={USER}",
    f"{MINE}/export",
]  # fmt: skip


@pytest.mark.parametrize("gateway", [{"jwt_user": "userId"}], indirect=True, ids=["by userId"])
def test_a_token_of_a_user_is_for_its_own_data_alone(ask: Ask, issuer: Issuer) -> None:
    for claim in (USER, str(USER)):
        for scope in ("read", "read explore admin"):
            token = issuer.token(userId=claim, scope=scope)
            for path in OWN:
                assert ask(path, token).status_code == 200
            for path in OTHERS:
                response = ask(path, token)
                assert response.status_code in (403, 404)
                assert "eventCount" not in response.get_data(as_text=True)
    for nobody in (None, True, "", [USER], {"a": USER}, f"{USER} "):
        assert ask(MINE, issuer.token(userId=nobody)).status_code == 403
    assert ask(MINE, issuer.token(scope="admin")).status_code == 200


def test_a_stream_ends_when_its_token_expires(
    issuer: Issuer, gateway: Asgi, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "RECHECK_S", 0.05)

    def listen() -> Listener:
        expires = now_ms() / 1_000 + 2 - tokens.LEEWAY_S
        client = Listener(loop, gateway, f"{MINE}/stream", credential=issuer.token(exp=expires))
        until(lambda: client.blocks)
        return client

    client = until_fits(listen, lambda client: client.status == 200, "a stream that begins before its token expires")
    until(lambda: client.ended)


@pytest.mark.parametrize(
    "gateway", [{"jwt_algorithms": ["RS256", "PS256", "ES256", "EdDSA"]}], indirect=True, ids=["four"]
)
def test_a_token_is_verified_with_each_key_that_fits(ask: Ask, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "LEAST_S", 0.0)
    rsa_key, ec_key = issuer.private["first"], ec.generate_private_key(ec.SECP256R1())
    ed_key = Ed25519PrivateKey.generate()
    issuer.document = [
        {**RSAAlgorithm.to_jwk(rsa_key.public_key(), as_dict=True), "kid": "same"},
        {**ECAlgorithm.to_jwk(ec_key.public_key(), as_dict=True), "kid": "same", "alg": "ES256"},
        {**RSAAlgorithm.to_jwk(_OTHER.public_key(), as_dict=True), "kid": "same", "alg": "RS256"},
        {**OKPAlgorithm.to_jwk(ed_key.public_key(), as_dict=True)},
        {**RSAAlgorithm.to_jwk(_OTHER.public_key(), as_dict=True), "kid": "encrypts", "use": "enc"},
        {"kty": "RSA", "kid": "broken", "n": "AA"}, {"kty": "new", "kid": "same"}, {},
    ]  # fmt: skip

    def token(key: Any, algorithm: str, kid: str | None) -> str:
        return jwt.encode(issuer.claims(), key, algorithm=algorithm, headers={"kid": kid} if kid else {})

    until_equal(lambda: ask(MINE, token(rsa_key, "RS256", "same")).status_code, 200)
    signers: list[tuple[Any, str]] = [(rsa_key, "RS256"), (rsa_key, "PS256"), (_OTHER, "RS256"), (ec_key, "ES256")]
    for key, algorithm in signers:
        for kid in ("same", None):
            assert ask(MINE, token(key, algorithm, kid)).status_code == 200
    assert ask(MINE, token(ed_key, "EdDSA", "any")).status_code == 200
    assert ask(MINE, token(_OTHER, "PS256", "same")).status_code == 401
    assert ask(MINE, token(_OTHER, "RS256", "encrypts")).status_code in {401, 503}


@pytest.mark.parametrize("harm", ["endless", "slow"])
def test_an_issuer_that_does_harm_keeps_nobody_waiting(
    ask: Ask, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    assert ask(MINE, issuer.token()).status_code == 200
    monkeypatch.setattr(tokens, "LEAST_S", 0.0)
    issuer.harm, asked = harm, issuer.asked
    began = now_s()
    for _ in range(5):
        assert ask(MINE, FORGED["an unknown key"](issuer)).status_code == 503
        assert ask(MINE, issuer.token(jti=token_hex())).status_code == 200
    assert now_s() - began < 5 * tokens.FETCH_S
    until(lambda: ask(MINE, FORGED["an unknown key"](issuer)).status_code == 503 and issuer.asked > asked + 1)
    assert issuer.most_sent < tokens.MOST_BYTES + 16_000_000, (
        "of an endless answer: the bound, and the sockets' buffers"
    )
