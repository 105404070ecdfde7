"""Gateway and instance as processes with access on: whatever comes, nobody gets what is not for him."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from streamstate.web.access import internal, keys
from tests.serving import new_address, running
from tests.unit.gateway.guarding import TOKEN
from tests.unit.web.hostile import HOSTILE, IDS, METHODS, PARAMETERS
from tests.unit.web.process import KNOWN, answer, connect, post, request

KEY = keys.generate()
ME = f"Authorization: Bearer {KEY}"
FORGED = [
    "Authorization: Basic !", "Authorization: Bearer", "Authorization: Bearer ssk_", f"Authorization: Token {KEY}",
    f"Authorization: Bearer {KEY[:-1]}", f"Authorization: Bearer {KEY}\r\n{ME}", f"Authorisation: Bearer {KEY}",
    f"X-Forwarded-Authorization: Bearer {KEY}", f"Proxy-Authorization: Bearer {KEY}", f"Cookie: Authorization={KEY}",
    f"Authorization: Bearer {KEY},{KEY}", "Authorization: Bearer " + "a." * 4_000, "Authorization: Bearer a.b.c",
    "Authorization:", "Authorization: Basic", "Authorization: Basic Og==", "Authorization: Basic c3NrXw",
    "Authorization: Bearer ssk_\xff", "Authorization: Bearer eyJhbGciOiJub25lIn0.e30.", f"Authorization: {KEY}",
    f"Authorization: Bearer {keys.digest(KEY)}", "X-Direct: 1", "X-Stand-In: 1",
    f"{internal.HEADER}: {'a' * 32}", f"{internal.HEADER}:",
    f"{internal.HEADER.replace('-', '_')}: {TOKEN}", f"{internal.HEADER}: {TOKEN}a", "X-Original-Url: /livez",
    "X-Http-Method-Override: GET", "Host: /livez", "Upgrade: h2c", "Connection: x-instance-token",
]  # fmt: skip
PATHS = [
    KNOWN, "/processors", "/metrics", "/openapi.json", "/docs", "/v1/tally/processors", "/v1/route/tally/7",
    "/livez/../v1/numbers/7", "/livez%2f..%2fv1/numbers/7", "/livez;/v1/numbers/7", "/livez?/v1", "/LIVEZ", "//livez",
    "http://here/v1/numbers/7", "/v1/numbers/7/livez", "/readyz/", "/%6civez/../metrics", "/v1/../livez/../metrics",
]  # fmt: skip


def line(key: str) -> str:
    """The line of the file of keys for `key`."""
    return (
        json.dumps(
            {
                "name": "me",
                "sha256": keys.digest(key),
                "scopes": ["read"],
                "requests_per_s": 10_000,
                "cost_per_s": 100_000,
            }
        )
        + "\n"
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of keys and of tokens."""
    home = tmp_path_factory.mktemp("guarded")
    (home / "tokens").write_text(TOKEN)
    (home / "keys").write_text(line(KEY))
    return home


@pytest.fixture(scope="module")
def servers(home: Path) -> Iterator[tuple[str, str]]:
    """The addresses of the gateway and of the only instance behind it."""
    gateway, instance = new_address(), new_address()
    common = {"ACCESS": "required", "INTERNAL_TOKENS": str(home / "tokens"), "ADVERTISE": instance}
    own = {"ACCESS_KEYS": str(home / "keys"), "INSTANCES": json.dumps({"tally": instance})}
    with (
        running("tests.unit.web", instance, home, common),
        running("services.gateway", gateway, home, common | own),
    ):
        yield gateway, instance
    logs = "".join(path.read_text() for path in home.glob("*.log"))
    assert "Traceback" not in logs
    assert not re.search(f"{KEY}|{TOKEN}|{keys.digest(KEY)}", logs)


SILENT_S = 0.05


def statuses(address: str, sent: bytes) -> list[int]:
    """The statuses of all answers to these bytes; afterwards the sender is silent."""
    received = b""
    with connect(address) as client, suppress(OSError):
        client.sendall(sent)
        while chunk := client.recv(65_536):
            received += chunk
            client.settimeout(SILENT_S)
    assert b'"count":' not in received
    return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", received)]


ASKED = [
    *(request(KNOWN, line) for line in FORGED),
    *(request(path) for path in PATHS),
    *(request(f"/v1/numbers/{text}") for text in IDS),
    *(request(f"/v1/above/7?{text}") for text in PARAMETERS),
    *(request(KNOWN, method=method) for method in METHODS),
    post(b'{"numbers": [7]}', "Content-Length: 16"),
    post(b" " * 200_000, "Content-Length: 200000"),
    request(KNOWN) + request("/v1/numbers/8") + request(KNOWN, "Connection: close"),
]


@pytest.mark.parametrize("server", [0, 1], ids=["gateway", "instance"])
def test_who_has_no_credential_gets_nothing(servers: tuple[str, str], server: int) -> None:
    asked = [*ASKED, *(sent for sent, status in HOSTILE if status != 408)]
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(partial(statuses, servers[server]), asked)
    for sent, found in zip(asked, answers, strict=True):
        opened = sent.startswith((b"GET /livez?", b"GET /%6civez "))
        assert opened or (found and set(found) <= {400, 401, 413, 414, 431}), (sent[:200], found)
    assert answer(servers[0], request(KNOWN, ME))[1] == {"key": "7", "count": 1}


def test_a_path_that_is_no_text_is_refused_to_callers_only(servers: tuple[str, str]) -> None:
    statuses = [answer(servers[0], request("/v1/numbers/%ff", *lines))[0].status for lines in ([], [ME])]
    assert statuses == [401, 400]


def test_the_key_of_a_caller_opens_no_instance_and_the_token_of_instances_no_gateway(servers: tuple[str, str]) -> None:
    gateway, instance = servers
    assert answer(instance, request(KNOWN, ME))[0].status == 401
    assert answer(gateway, request(KNOWN, f"{internal.HEADER}: {TOKEN}"))[0].status == 401
    assert answer(instance, request(KNOWN, f"{internal.HEADER}: {TOKEN}"))[1] == {"key": "7", "count": 1}
