"""A page of another origin asks the gateway from a real browser."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from devkit.child_process import LOCALHOST, free_port
from devkit.local_cluster import LocalCluster, answers
from tests.serving import Served

ASK = """
    async (url) => {
        try {
            const headers = { Authorization: "Bearer mine", "X-Deadline-Ms": "1000" };
            const answer = await fetch(url, { headers });
            return [answer.status, answer.headers.get("X-Request-Id") !== null];
        } catch (error) {
            return [0, String(error)];
        }
    }
"""


@pytest.fixture
def page() -> Iterator[str]:
    """The origin of an empty page."""

    def answer(_environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/html")])
        return [b"<!doctype html><title>elsewhere</title><link rel=icon href=data:,>"]

    served = Served(f"{LOCALHOST}:{free_port()}", answer)
    yield f"http://{served.address}"
    served.stop()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_page_reads_answers_where_its_origin_is_allowed(
    browser: Browser, page: str, tmp_path_factory: pytest.TempPathFactory, allowed: bool
) -> None:
    home, address = tmp_path_factory.mktemp("origins"), f"{LOCALHOST}:{free_port()}"
    settings = {"INSTANCES": "{}", "ORIGINS": f'["{page}"]' if allowed else "[]"}
    gateway = LocalCluster.api("services.gateway", "gateway", address, home, settings)
    gateway.start()
    try:
        gateway.wait_until(lambda: answers(f"http://{address}/livez"), timeout=30)
        with browser.new_page() as tab:
            tab.goto(page)
            status, told = tab.evaluate(ASK, f"http://{address}/v1/system")
    finally:
        gateway.stop()
    assert (status, told is True) == ((200, True) if allowed else (0, False))
