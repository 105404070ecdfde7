"""A small cluster that is really fed, and Chromium looking at its page."""

import random
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from devkit import feed, sample_events
from devkit.child_process import free_port
from devkit.demo import CACHE
from devkit.local_cluster import LocalCluster, Plan
from streamstate.kafka.producer import producer
from tests.integration.driving import Driving, eventually

SEED = 7
EVENTS = 6_000
USERS = 200
SERVICES = ("metrics", "names", "recommendations", "topics")
INSTANCES = {"metrics": 2}
DESKTOP, PHONE = (1440, 900), (380, 800)

Open = Callable[..., Page]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", type=Path, help="folder for pictures of the page")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("cluster")
    ports = (free_port(), free_port(), free_port())
    cluster = LocalCluster(Plan(home, Path.cwd() / CACHE, *ports, INSTANCES, SERVICES), say=lambda _line: None)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def driving(cluster: LocalCluster) -> Driving:
    """The cluster with names and plays, all of them folded, all instances ready."""
    catalogue = sample_events.Catalogue.make(SEED, artists=60)
    clock = sample_events.backlog(EVENTS, 86_400_000, feed.now_ms)
    events = sample_events.events(catalogue, SEED, USERS, clock, broken=0)
    driving = Driving(cluster, producer(cluster.kafka.bootstrap), events, random.Random(SEED))
    feed.send_names(driving.out, sample_events.names(catalogue))
    driving.feed(islice(events, EVENTS))
    driving.settle()
    eventually(cluster.ready, "all instances to be ready", 120)
    return driving


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "install chromium (Debian: apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Browser, driving: Driving) -> Iterator[Open]:
    """Opens the page at an address after the #. Nothing may be asked of other servers, and nothing may go wrong."""
    url = driving.cluster.url
    elsewhere: list[str] = []
    wrong: list[str] = []
    contexts = []

    def request(request: Request) -> None:
        if not request.url.startswith(f"{url}/"):
            elsewhere.append(request.url)

    def console(message: ConsoleMessage) -> None:
        # Answers that are problems are logged by the browser itself.
        if message.type == "error" and "Failed to load resource" not in message.text:
            wrong.append(message.text)

    def open_page(address: str = "#/", size: tuple[int, int] = DESKTOP, **options: Any) -> Page:
        width, height = size
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", request)
        page.on("console", console)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{url}/{address}" if address.startswith("#") else f"{url}{address}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert elsewhere == []
    assert wrong == []
