"""Nested parts of a profile on the page, by stubbed answers: no service but the gateway runs."""

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from devkit.servers.child_process import LOCALHOST, free_port
from tests.browser.conftest import Open, Routes, looks
from tests.browser.test_page import PATIENT_MS, SCRIPT
from tests.serving import Served, new_address, running

POLLED_MS = 5_000
NOW = 1_795_680_000_000
HOUR = 3_600_000
METRICS: dict[str, Any] = {
    "userId": 42,
    "eventCount": 904,
    "warnings": [],
    **dict.fromkeys(("firstListeningEvent", "lastListeningEvent"), "2026-11-26T20:00:00Z"),
    **{f"topTen{kind}": [] for kind in ("Artists", "Albums", "Tracks")},
}
HABITS: dict[str, Any] = {
    "key": 42,
    "plays": {"7d": 61, "1h": 3, "ever": 904},
    "devices": {"radio": 3, "phone": 58},
    "genres": {"7d": [{"value": "folk", "count": 30}], "ever": [{"value": "jazz", "count": 500}]},
    "artists": 9,
    "long": 8_123_000,
    "lastSeen": NOW,
    "windows": {"7d": {"from": NOW - 168 * HOUR, "to": NOW}, "1h": {"from": NOW - HOUR, "to": NOW}},
}


class Stub:
    """A gateway without event streams, whose answer about any user is `profile`; `queries` are the queries for it."""

    def __init__(self, **parts: Any) -> None:
        self.profile = deepcopy({**METRICS, **parts})
        self.queries: list[str] = []

    @property
    def routes(self) -> Routes:
        habits = {"properties": {"long": {"description": "in the unit of durationMs"}}}
        document = {"components": {"schemas": {"Parts": {"items": {"enum": ["metrics", "habits"]}}, "Habits": habits}}}
        return {
            "**/openapi.json": lambda route: route.fulfill(json=document),
            "**/v1/users?*": lambda route: route.fulfill(json={"users": []}),
            "**/v1/users/*?*": self._user,
            "**/v1/users/*/stream?*": lambda route: route.fulfill(status=503),
        }

    def _user(self, route: Route) -> None:
        self.queries.append(urlsplit(route.request.url).query)
        route.fulfill(json=self.profile)


def part(page: Page, name: str = "Habits") -> Locator:
    return page.get_by_role("region", name=name)


def ranking(section: Locator, name: str) -> Locator:
    heading = section.page.get_by_role("heading", name=re.compile(f"^{name}"))
    return section.locator(".columns > div").filter(has=heading)


def test_members_are_shown_by_their_shapes(show: Open, gateway: str) -> None:
    stub = Stub(habits=HABITS)
    habits = part(show("#/users/42", url=gateway, routes=stub.routes, timezone_id="UTC"))
    expect(habits.locator(".facts dt")).to_have_text(["Artists", "Long", "Last seen"], timeout=PATIENT_MS)
    facts = habits.locator(".facts dd")
    expect(facts.nth(1)).to_have_text("2 h 15 min")
    expect(facts.last).to_have_attribute("title", "Nov 26, 2026, 8:00:00 AM")
    expect(ranking(habits, "Devices").locator("li")).to_have_text(["phone58 ", "radio3 "])
    expect(habits.locator(".tile .window")).to_have_text(["1h", "7d", "ever"])
    expect(habits.locator(".tile").nth(0)).to_have_text("1hPlays3")
    expect(habits.locator(".tile").nth(1)).to_have_text("7dPlays61Genresfolk")
    bars = habits.locator(".tile .bar:visible .fill")
    widths = bars.evaluate_all("fills => fills.map((fill) => parseFloat(fill.style.width))")
    assert 0 < widths[0] < widths[1] < widths[2] < 100
    assert set(stub.queries) == {"explain=true&parts=metrics,habits"}


def test_a_window_is_chosen_and_stays_while_numbers_change(show: Open, gateway: str) -> None:
    stub = Stub(habits=HABITS)
    page = show("#/users/42", url=gateway, routes=stub.routes, timezone_id="UTC")
    habits = part(page)
    genres, tile = ranking(habits, "Genres"), habits.locator(".tile").nth(1)
    expect(genres.locator("li")).to_have_text(["jazz500 "], timeout=PATIENT_MS)
    expect(genres.get_by_role("heading")).to_have_text("Genres · ever")
    expect(habits.get_by_text("all events")).to_be_visible()
    tile.click()
    expect(genres.locator("li")).to_have_text(["folk30 "])
    expect(habits.get_by_text("Nov 19, 2026, 8:00:00 AM")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(habits.get_by_role("radio", name="1h")).to_be_checked()
    expect(genres.get_by_text("kept for 7d, ever")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.evaluate("document.querySelector('.tile').dataset.kept = 'yes'")
    stub.profile["habits"]["plays"]["7d"] = 62
    stub.profile["habits"]["genres"]["7d"].insert(0, {"value": "soul", "count": 31})
    expect(tile).to_have_text("7dPlays62Genressoul", timeout=POLLED_MS)
    expect(genres.locator("li")).to_have_text(["soul31 ", "folk30 "])
    expect(habits.get_by_role("radio", name="7d")).to_be_focused()
    assert page.evaluate("document.querySelector('.tile').dataset.kept") == "yes"


def test_a_part_has_any_name_and_its_values_are_text(show: Open, gateway: str) -> None:
    purchases = {
        "key": "a",
        "shops": {SCRIPT: 2, "without": None},
        "sum": 1.5,
        "least": None,
        "none": [],
        "byPrice": [{"value": 7, "total": 0.5}],
        "lastShops": [{"value": "shop", "timestamp": NOW}],
        "firstShop": {"1h": None, "ever": "shop"},
        "windows": {"1h": {"from": NOW - HOUR, "to": NOW}},
    }
    page = show("#/users/42", url=gateway, routes=Stub(purchases=purchases, habits=None).routes)
    section = part(page, "Purchases")
    expect(ranking(section, "Shops").locator(".name")).to_have_text(SCRIPT, timeout=PATIENT_MS)
    expect(section.locator(".facts > div")).to_have_text(["Sum1.5", "Least–"])  # noqa: RUF001
    expect(section.get_by_role("heading", level=3)).to_have_text(["Shops", "None", "By price", "Last shops"])
    expect(ranking(section, "By price").locator("li")).to_have_text("70.5 ")
    expect(ranking(section, "Last shops").locator(".why")).to_have_attribute("title", re.compile("2026"))
    expect(section.locator(".tile")).to_have_text(["1hFirst shop–", "everFirst shopshop"])  # noqa: RUF001
    expect(part(page)).to_have_count(0)
    expect(page.locator("main img")).to_have_count(0)


def test_an_unknown_user_is_no_alarm(show: Open, gateway: str) -> None:
    stub = Stub()
    routes = {**stub.routes, "**/v1/users/*?*": lambda route: route.fulfill(status=404, json={})}
    page = show("#/users/42", url=gateway, routes=routes)
    note = page.get_by_role("status").filter(has_text="Nothing is known of this user")
    expect(note).to_be_visible(timeout=PATIENT_MS)
    expect(page.get_by_role("alert")).to_have_count(0)
    colours = [each.evaluate("each => getComputedStyle(each).color") for each in (note, page.locator("footer"))]
    assert colours[0] == colours[1]


def test_a_part_is_legible_and_fits(show: Open, gateway: str) -> None:
    page = show("#/users/42", gateway, Stub(habits=HABITS).routes, reduced_motion="reduce")
    expect(part(page)).to_be_visible(timeout=PATIENT_MS)
    assert len([*looks(page)]) == 4


# A page of another origin asks the gateway from a real browser.

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
    home, address = tmp_path_factory.mktemp("origins"), new_address()
    settings = {"INSTANCES": "{}", "ORIGINS": f'["{page}"]' if allowed else "[]"}
    with (
        running("services.gateway", address, home, settings, f"http://{address}/livez"),
        browser.new_page() as tab,
    ):
        tab.goto(page)
        status, told = tab.evaluate(ASK, f"http://{address}/v1/system")
    assert (status, told is True) == ((200, True) if allowed else (0, False))
