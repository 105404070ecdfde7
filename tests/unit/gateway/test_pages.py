"""The gateway's pages: files of the installation alone; and what pages of other origins may ask."""

import re
from pathlib import Path

import pytest
from werkzeug.test import Client

from tests.serving import Loop
from tests.unit.gateway.deployment import USER, Services
from tests.unit.gateway.guarding import READ, Guarded

# The gateway's pages: served whole from the installation, kept by their ETag; nothing in them is from elsewhere.

PAGE = Path("services/gateway/page")
DOCS = Path("libs/streamstate/src/streamstate/web/server/docs")
LINKS = re.compile(r"""(?:src|href)="([^"#]+)"|from "([^"]+)";""")
NAMESPACE = "http://www.w3.org/2000/svg"
REASONABLE_LINES = 200


@pytest.fixture
def client(deployment: Services) -> Client:
    return deployment.gateway()


@pytest.mark.parametrize("start", ["/", "/docs"])
def test_all_that_a_page_loads_is_served(client: Client, start: str) -> None:
    seen, to_see = set[str](), {start}
    while to_see:
        path = to_see.pop()
        seen.add(path)
        response = client.get(path)
        assert response.status_code == 200, path
        if path.endswith("openapi.json") or "swagger-ui" in path:
            continue
        links = [first or second for first, second in LINKS.findall(response.text)]
        to_see |= {re.sub(r"[^/]*$", "", path) + link.removeprefix("./") for link in links} - seen
    files = PAGE if start == "/" else DOCS
    assert {path.name for path in files.iterdir()} - {Path(path).name for path in seen} == {"index.html"}


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/docs", "/docs/swagger-ui.css"])
def test_a_file_is_sent_again_only_when_it_has_changed(client: Client, path: str) -> None:
    first = client.get(path)
    tag = first.headers["ETag"]
    assert first.headers["Cache-Control"] == "no-cache"
    assert client.get(path, headers={"If-None-Match": f'"other", {tag}'}).status_code == 304
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_runs_only_its_own_files(client: Client, path: str) -> None:
    policy = client.get(path).headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["/page/absent.js", "/page/..%2fapi.py", "/page/", "/docs/index.py"])
def test_only_files_of_the_page_are_served(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", sorted((*PAGE.iterdir(), *DOCS.iterdir())), ids=str)
def test_no_file_names_another_server_or_makes_elements_of_text(path: Path) -> None:
    text = path.read_text()
    assert set(re.findall(r"https?://[^\"'`\s)]+", text)) <= {NAMESPACE}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|style=", text)
    assert len(text.splitlines()) <= REASONABLE_LINES


# Pages of other origins: none by default, and those that are allowed without a credential in their preflight.

ORIGIN = "https://app.company"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "authorization",
}


def test_a_page_of_another_origin_is_not_answered_by_default(guarded: Guarded) -> None:
    assert guarded.client.options("/v1/plays", headers=PREFLIGHT).status_code == 401
    answer = guarded.get(f"/v1/users/{USER}", guarded.keys[READ], Origin=ORIGIN)
    assert {name for name, _ in answer.headers if name.startswith("Access-Control") or name == "Vary"} == set()


def test_a_page_of_an_allowed_origin_asks_before_without_a_credential_and_reads_answers(
    guarded: Guarded, loop: Loop
) -> None:
    client = Client(loop.wsgi(guarded.deployment.app(origins=(ORIGIN,))))
    for path in (f"/v1/users/{USER}", "/nowhere"):
        asked = client.options(path, headers=PREFLIGHT)
        assert (asked.status_code, asked.get_data()) == (204, b"")
        assert "Authorization" in asked.headers["Access-Control-Allow-Headers"]
        assert {name: asked.headers[name] for name in ("Access-Control-Allow-Origin", "Vary")} == {
            "Access-Control-Allow-Origin": ORIGIN,
            "Vary": "Origin",
        }
    mine = {"Authorization": f"Bearer {guarded.keys[READ]}", "Origin": ORIGIN}
    for path, headers, status in (
        (f"/v1/users/{USER}", mine, 200),
        ("/v1/plays", mine, 403),
        ("/v1/plays", PREFLIGHT, 401),
    ):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (status, ORIGIN)
        assert {"Position", "RateLimit", "X-Request-Id"} <= {
            *answer.headers["Access-Control-Expose-Headers"].split(", ")
        }
    for other in ("https://app.company.evil", "null", "http://app.company"):
        assert client.options("/v1/plays", headers=PREFLIGHT | {"Origin": other}).status_code == 401
        answer = client.get(f"/v1/users/{USER}", headers=mine | {"Origin": other})
        assert (answer.status_code, answer.headers["Vary"]) == (200, "Origin")
        assert "Access-Control-Allow-Origin" not in answer.headers
