"""A small cluster that is really fed, and Chromium looking at its page."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Route, sync_playwright

from devkit.cluster.local_cluster import LocalCluster, get
from devkit.events import feed
from devkit.servers.child_process import LOCALHOST, Child, free_port
from tests.integration.driving import Driving, local_cluster
from tests.serving import new_address, running
from tests.waiting import until

SEED = 7
EVENTS = 6_000
USERS = 200
SERVICES = ("metrics", "names", "profile", "recommendations", "topics")
INSTANCES = {"metrics": 2}
SLOWLY = "1000"
"""Records of a batch: a build takes several looks."""

SIZES = {"desktop": (1440, 900), "phone": (380, 800)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SERIOUS = ("serious", "critical")

Open = Callable[..., Page]
Routes = Mapping[str, Callable[[Route], None]]
"""Answers by the pattern of their URL."""
NO_ROUTES: Routes = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", type=Path, help="folder for pictures of the page")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("cluster")
    with local_cluster(home, instances=INSTANCES, services=SERVICES).running() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def driving(cluster: LocalCluster) -> Driving:
    """The cluster with names and plays, all of them folded, all instances ready."""
    driving = Driving.fed(cluster, SEED, EVENTS, USERS, feed.now_ms, broken=0)
    until(cluster.ready, "all instances to be ready")
    return driving


@dataclass(frozen=True)
class Later:
    """A further instance of metrics, at `address`, and the service words; the test starts their `streams`.

    url: of a gateway with these services.
    """

    url: str
    address: str
    streams: Child

    def owns(self) -> bool:
        """Whether the instance of metrics owns partitions by now."""
        partitions = get(f"http://{self.address}/processors")["partitions"]
        return any(each["owner"] == self.address for each in partitions)


@pytest.fixture
def later(driving: Driving, tmp_path: Path) -> Iterator[Later]:
    cluster = driving.cluster
    metrics, words, gateway = (f"{LOCALHOST}:{free_port()}" for _ in range(3))
    known = {**cluster.addresses, "metrics": [*cluster.addresses["metrics"], metrics], "words": [words]}
    settings = {"KAFKA": cluster.kafka.bootstrap, "REDIS": cluster.redis.url}
    settings["INSTANCES"] = json.dumps({service: ",".join(addresses) for service, addresses in known.items()})
    streams = cluster.host([f"metrics-2={metrics}", f"words-0={words}"], "later", BATCH_RECORDS=SLOWLY)
    with ExitStack() as stack:
        stack.callback(streams.stop)
        for service, address in (("metrics", metrics), ("words", words), ("gateway", gateway)):
            own = {**settings, "ADVERTISE": address}
            probe = f"http://{address}/{'readyz' if service == 'gateway' else 'livez'}"
            stack.enter_context(running(f"services.{service}", address, tmp_path, own, probe))
        yield Later(f"http://{gateway}", metrics, streams)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway without services, for stubbed answers."""
    address, home = new_address(), tmp_path_factory.mktemp("gateway")
    with running("services.gateway", address, home, {"INSTANCES": "{}"}, f"http://{address}/livez"):
        yield f"http://{address}"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "install chromium (Debian: apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens the page at an address after the #, of the cluster or the gateway at `url`; `routes` answer in its place.

    Nothing may be asked of other servers, and nothing may go wrong.
    """
    elsewhere: list[str] = []
    wrong: list[str] = []
    contexts = []

    def console(message: ConsoleMessage) -> None:
        # Answers that are problems are logged by the browser itself.
        if message.type == "error" and "Failed to load resource" not in message.text:
            wrong.append(message.text)

    def open_page(address: str = "#/", url: str = "", routes: Routes = NO_ROUTES, **options: Any) -> Page:
        url = url or request.getfixturevalue("driving").cluster.url

        def asked(request: Request) -> None:
            if not request.url.startswith(f"{url}/"):
                elsewhere.append(request.url)

        width, height = SIZES["desktop"]
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        for pattern, answer in routes.items():
            page.route(pattern, answer)
        page.on("request", asked)
        page.on("console", console)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{url}/{address}" if address.startswith("#") else f"{url}{address}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert elsewhere == []
    assert wrong == []


def looks(page: Page) -> Iterator[str]:
    """The page on each screen, light and dark: legible, and no wider than the screen."""
    for (screen, (width, height)), scheme in product(SIZES.items(), SCHEMES):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = Axe().run(page).response
        assert found["passes"]
        serious = [violation["id"] for violation in found["violations"] if violation["impact"] in SERIOUS]
        assert serious == [], (screen, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (screen, scheme)
        yield f"{screen}-{scheme}"
