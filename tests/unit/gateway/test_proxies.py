"""The gateway behind nginx as Debian ships it: what is streamed comes at once, and the page as it is."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import urllib3

from devkit.child_process import Child
from devkit.local_cluster import answers
from tests.serving import new_address, running

CONFIGURATION = """
daemon off;
pid {home}/pid;
error_log {home}/error.log;
events {{}}
http {{
    include /etc/nginx/mime.types;
    access_log {home}/access.log;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    gzip on;
    gzip_proxied any;
    gzip_types *;
    server {{
        listen {address};
        location / {{ proxy_pass http://{gateway}; }}
    }}
}}
"""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of nginx and of the gateway behind it."""
    home = tmp_path_factory.mktemp("proxies")
    address, gateway, instance = (new_address() for _ in range(3))
    (home / "nginx.conf").write_text(CONFIGURATION.format(home=home, address=address, gateway=gateway))
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin") or "nginx"
    command = [nginx, "-c", str(home / "nginx.conf"), "-e", str(home / "error.log")]
    with (
        running("tests.unit.web", instance, home, {"ADVERTISE": instance}),
        running("services.gateway", gateway, home, {"INSTANCES": json.dumps({"tally": instance})}),
    ):
        child = Child("nginx", command, home / "nginx.log", {})
        child.start()
        child.wait_until(lambda: answers(f"http://{address}/livez"), timeout=30)
        yield address, gateway
        child.stop()


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_an_event_comes_whole_and_at_once(proxy: tuple[str, str], coding: str) -> None:
    with urllib3.PoolManager() as pool:
        headers = {"Accept-Encoding": coding}
        url = f"http://{proxy[0]}/v1/system/stream"
        response = pool.request("GET", url, headers=headers, preload_content=False, timeout=10, retries=False)
        read = b""
        while b"data: " not in read or not read.endswith(b"\n\n"):
            read += response.read1(65_536)
        response.close()
    event = read[read.index(b"event: ") :].split(b"\n\n")[0]
    assert json.loads(event.partition(b"data: ")[2])
    assert "no-transform" in response.headers["Cache-Control"]


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/v1/numbers/7", "/v1/words/a%2Fb", "/v1/words/a/b"])
def test_what_the_gateway_answers_is_the_same_behind_it(proxy: tuple[str, str], path: str) -> None:
    behind, direct = (urllib3.request("GET", f"http://{at}{path}", timeout=5) for at in proxy)
    assert (behind.status, behind.data) == (direct.status, direct.data)
    zipped = subprocess.run(
        ["curl", "-s", "-H", "Accept-Encoding: gzip", f"http://{proxy[0]}{path}"], capture_output=True, check=True
    ).stdout
    assert zipped == direct.data or gzip.decompress(zipped) == direct.data


@pytest.mark.parametrize("at", [0, 1], ids=["nginx", "gateway"])
def test_a_key_with_a_slash_is_asked_for_where_it_is(proxy: tuple[str, str], at: int) -> None:
    for path, kind in (("a%2Fb", "unknown-key"), ("a/b", "not-found")):
        answer = urllib3.request("GET", f"http://{proxy[at]}/v1/words/{path}", timeout=5)
        assert (answer.status, answer.json()["type"]) == (404, f"urn:streamstate:problem:{kind}")
