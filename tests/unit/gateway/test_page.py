"""The gateway's pages: served whole from the installation, kept by their ETag; nothing in them is from elsewhere."""

import re
from pathlib import Path

import pytest
from werkzeug.test import Client

from tests.unit.gateway.deployment import Services

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
