"""The views of profiles, and of what moves at present, by stubbed answers: no service but the gateway runs."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from services.gateway.system import EXAMPLE_STATE
from services.gateway.topic_rates import Topic
from services.profile.settings import HABITS as HABITS_FILE
from streamstate.profile.file import read
from tests.browser.conftest import Open, Routes, looks
from tests.browser.test_page import PATIENT_MS, SCRIPT
from tests.browser.test_parts import HABITS, HOUR, NOW, POLLED_MS

HABIT = msgspec.to_builtins(read(HABITS_FILE))
HABIT["measures"]["spent"] = {"total": "durationMs", "index": True}
EVERYWHERE = {
    "name": "total",
    "topic": "plays",
    "key": "long",
    "path": "/v1/total",
    "measures": {"plays": {"count": "all"}},
}
STAGED = {**HABIT, "name": "habits-2", "measures": {**HABIT["measures"], "devices": {"count": "all", "by": "device"}}}
ADMIN = "this needs the scope admin; use a key or a token that has it"
EXPLORE = "this needs the scope explore; use a key or a token that has it"


def release(service: str, name: str, **changes: Any) -> dict[str, Any]:
    """A release as in `/v1/system`."""
    of: dict[str, Any] = msgspec.to_builtins(EXAMPLE_STATE.services[0])
    return {**of, "name": name, "service": service, "release": name, "ready": True, "progress": 1.0, **changes}


def view(declared: dict[str, Any], key: str = "long") -> dict[str, Any]:
    return {"name": declared["name"], "path": declared["path"], "key": key, "profile": declared}


def window(at: int, total: int) -> dict[str, int]:
    return {
        "start": NOW + at * HOUR,
        "end": NOW + (at + 1) * HOUR,
        "count": 1,
        "min": total,
        "max": total,
        "sum": total,
    }


class Stub:
    """Answers by path; a text is the detail of a 403."""

    def __init__(self, **changes: Any) -> None:
        key = {"name": "key", "in": "path", "required": True, "schema": {"type": "integer"}}
        call = {"get": {"summary": "A call", "parameters": [key]}}
        by_view = [{"name": name, "in": "query"} for name in ("metrics", "topic-bookings")]
        many = {"get": {"summary": "Many", "parameters": by_view}}
        topic = "/v1/topics/bookings/{key}"
        plays = {"eventCount": 3, "lastListeningEvent": "2026-11-26T20:00:00Z"}
        self.last = {7: NOW, 8: NOW - HOUR}
        self.windows = [window(1, 30), window(0, 10)]
        self.answers: dict[str, Any] = {
            "/openapi.json": {"paths": {topic: call, f"{topic}/windows": call, "/v1/many": many}},
            "/v1/users": {"users": [42, 43]},
            "/v1/users/42/habits": HABITS,
            "/v1/total": {"plays": 61},
            "/v1/many": lambda query: {
                "metrics": {key: plays for name, key in query if name == "metrics"},
                "topic-bookings": {
                    str(key): {"key": key, "value": {"room": SCRIPT}, "offset": 1, "timestamp": at}
                    for key, at in self.last.items()
                },
            },
            "/v1/topics/bookings/7/windows": lambda _query: {"key": 7, "windows": self.windows, "next": None},
            "/v1/system": {
                "services": [
                    release("profile", "habits"),
                    release("profile", "habits-2", live=False, ready=False, progress=0.4),
                ],
                "topics": msgspec.to_builtins([Topic("plays", 4_711, 50.5), Topic("bookings", 10, 0.0)]),
            },
            "/v1/habits/processors": {
                "views": [{"name": "map"}, view(HABIT), view(EVERYWHERE, "")],
                "memory": 12_300_000,
            },
            "/v1/habits-2/processors": {"views": [view(STAGED)], "memory": None},
            **changes,
        }

    @property
    def routes(self) -> Routes:
        return {
            "**/openapi.json": self._answer,
            "**/v1/**": self._answer,
            "**/v1/**/stream": lambda route: route.fulfill(status=503),
        }

    def _answer(self, route: Route) -> None:
        url = urlsplit(route.request.url)
        answer = self.answers.get(url.path)
        if isinstance(answer, str):
            route.fulfill(status=403, json={"detail": answer})
        elif answer is None:
            route.fulfill(status=404, json={"detail": "no service answers this path"})
        else:
            route.fulfill(json=answer(parse_qsl(url.query)) if callable(answer) else answer)


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True)


def test_a_profile_shows_declaration_measures_and_releases(show: Open, gateway: str) -> None:
    stub = Stub()
    page = show("#/profiles", url=gateway, routes=stub.routes)
    habits = card(page, "habits")
    measures = habits.get_by_role("table", name="Measures of habits")
    expect(measures.get_by_role("row", name="devices")).to_have_text("devicescount all by device7d", timeout=PATIENT_MS)
    expect(measures.get_by_role("row", name="long")).to_have_text("longtotal durationMs where durationMs ge 300007d")
    expect(measures.get_by_role("row", name="spent")).to_have_text("spenttotal durationMs, indexedever")
    releases = habits.get_by_role("table", name="Releases of habits").locator("tbody tr")
    expect(releases).to_have_text(
        ["habitsliveready17≈ 12.3 MB", "habits-2staged; differs in devicesbeing built, 40 %17unknown"]
    )
    expect(habits.get_by_role("heading", name="Live, key 42")).to_be_visible()
    expect(habits.locator(".tile").nth(1)).to_have_text("7dPlays61Genresfolk")
    expect(card(page, "total").locator(".facts")).to_have_text("Plays61")
    stub.answers["/v1/total"] = {"plays": 62}
    expect(card(page, "total").locator(".facts")).to_have_text("Plays62", timeout=POLLED_MS)
    habits.get_by_label("Key").fill("99")
    habits.get_by_label("Key").press("Enter")
    expect(habits.get_by_text("Nothing is known of this key yet.")).to_be_visible()


def test_explore_begins_with_topics_keys_and_windows(show: Open, gateway: str) -> None:
    stub = Stub()
    page = show("#/explore", url=gateway, routes=stub.routes)
    expect(page.locator("ol.charts > li")).to_have_text(
        ["plays50.5/s4,711 records", "bookings0.0/s10 records"], timeout=PATIENT_MS
    )
    users, bookings = (page.get_by_role("region", name=name) for name in ("Users", "bookings"))
    expect(users.get_by_role("link", name="42")).to_have_attribute("href", "#/users/42")
    expect(bookings.locator("li .name")).to_have_text(["7", "8"])
    expect(bookings.locator("li .by").first).to_have_text(json.dumps({"room": SCRIPT}, separators=(",", ":")))
    expect(page.locator("main img")).to_have_count(0)
    bars = bookings.get_by_role("img", name="sum by window: 10, 30").locator("rect")
    expect(bars).to_have_count(2)
    heights = bars.evaluate_all("bars => bars.map((bar) => Number(bar.getAttribute('height')))")
    assert heights[1] == pytest.approx(3 * heights[0])
    stub.last[8] = NOW + HOUR
    stub.windows.insert(0, window(2, 5))
    expect(bookings.locator("li .name")).to_have_text(["8", "7"], timeout=POLLED_MS)
    expect(bookings.get_by_role("img", name="sum by window: 10, 30, 5")).to_be_visible(timeout=POLLED_MS)
    bookings.get_by_role("link", name="7").click()
    expect(page.get_by_role("heading", name="Windows of the key 7")).to_be_visible()
    expect(page.get_by_role("img", name="count by window: 1, 1, 1")).to_be_visible()


def test_views_without_rights_say_so_and_name_no_user(show: Open, gateway: str) -> None:
    paths = {**dict.fromkeys(("/v1/users", "/v1/many"), EXPLORE), "/v1/system": ADMIN}
    stub = Stub(**paths)
    page = show("#/explore", url=gateway, routes=stub.routes)
    expect(page.get_by_text(ADMIN)).to_be_visible(timeout=PATIENT_MS)
    expect(page.get_by_role("region", name="Users")).to_have_text(f"Users{EXPLORE}")
    expect(page.get_by_role("region", name="bookings")).to_have_text(f"bookings{EXPLORE}")
    page.goto(f"{gateway}/#/profiles")
    expect(page.get_by_role("alert")).to_have_text(ADMIN)


def test_views_without_anything_say_what_comes(show: Open, gateway: str) -> None:
    nothing = {
        "/v1/system": {"services": [], "topics": []},
        "/v1/users": {"users": []},
        "/v1/many": {"topic-bookings": {}},
    }
    page = show("#/explore", url=gateway, routes=Stub(**nothing).routes)
    expect(page.get_by_text("No topic has records yet.")).to_be_visible(timeout=PATIENT_MS)
    expect(page.get_by_text("No user yet")).to_be_visible()
    expect(page.get_by_text("No key yet")).to_be_visible()
    page.goto(f"{gateway}/#/profiles")
    expect(page.get_by_text("No profile is deployed.")).to_be_visible()


@pytest.mark.parametrize(("address", "content"), [("#/profiles", ".tile"), ("#/explore", "rect")])
def test_a_view_is_legible_and_fits(show: Open, gateway: str, address: str, content: str) -> None:
    page = show(address, gateway, Stub().routes, reduced_motion="reduce")
    expect(page.locator(content).first).to_be_visible(timeout=PATIENT_MS)
    assert len([*looks(page)]) == 4
