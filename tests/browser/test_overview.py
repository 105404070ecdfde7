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
ALARMS = {
    "name": "alarms",
    "topic": "plays",
    "key": "text",
    "path": "/v1/accounts/<key>/alarms",
    "where": {"kind": {"eq": "play"}},
    "fields": {"durationMs": "int"},
    "measures": {
        "plays": {"count": "all", "over": ["1h", "ever"], "index": True},
        "minutes_of_agents": {"total": "durationMs", "over": ["1h", "ever"]},
    },
    "rules": {"binge": {"when": {"plays": {"gt": 50}}, "over": "1h", "cooldown": "6h"}},
}
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
RING = 5
"""Pixels of the ring of the focus, around an element."""
LINES_OF_WORDS = """
    (element) => [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => {
        const range = new Range();
        range.selectNodeContents(node);
        return range.getClientRects().length;
    })
"""
"""The number of lines of each text of an element."""


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


def top(element: Locator) -> float:
    return float(element.evaluate("element => element.getBoundingClientRect().top"))


def bottom(element: Locator) -> float:
    return float(element.evaluate("element => element.getBoundingClientRect().bottom"))


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


def own_profile() -> Stub:
    """A deployment whose last service is a profile of text keys, with rules and indexes."""
    stub = Stub(**{"/v1/alarms/processors": {"views": [view(ALARMS, "text")], "memory": None}})
    stub.answers["/v1/system"]["services"].append(release("profile-2", "alarms"))
    stub.answers["/v1/accounts/anna/alarms"] = {
        "key": "anna",
        "plays": {"1h": 3, "ever": 9},
        "minutes_of_agents": {"1h": 1_499, "ever": 7_512_000},
        "windows": {"1h": {"from": NOW - HOUR, "to": NOW}},
    }
    key = {"name": "where", "in": "query", "required": True, "description": "comparisons, such as `plays_7d.ge.100`"}
    limit = {"name": "limit", "in": "query", "required": False}
    paths = stub.answers["/openapi.json"]["paths"]
    paths["/v1/accounts/alarms/find"] = {"get": {"summary": "Keys", "parameters": [key, limit]}}
    stub.answers["/v1/accounts/alarms/find"] = {"keys": ["anna"], "cursor": None}
    return stub


def test_own_profiles_come_first_with_its_rules_and_indexes(show: Open, gateway: str) -> None:
    page = show("#/profiles", url=gateway, routes=own_profile().routes)
    expect(page.locator(".declared > h2")).to_have_text(["total", "alarms", "habits"], timeout=PATIENT_MS)
    alarms = card(page, "alarms")
    expect(alarms.get_by_text("Of events with kind eq play.")).to_be_visible()
    rule = alarms.get_by_role("table", name="Rules of alarms").get_by_role("row", name="binge")
    expect(rule).to_have_text("bingeplays gt 50 over 1h6hlatest")
    expect(rule.get_by_role("link")).to_have_attribute("href", "#/explore?path=%2Fv1%2Frules%2Falarms%2Fbinge")
    expect(alarms.get_by_text("plays_1h, plays_ever")).to_be_visible()
    expect(card(page, "total").get_by_role("heading", name="Rules")).to_have_count(0)
    alarms.get_by_role("link", name="/v1/accounts/alarms/find?where=plays_1h.ge.1").click()
    expect(page.locator("pre")).to_contain_text("anna")


def test_names_are_words_and_durations_have_a_unit(show: Open, gateway: str) -> None:
    page = show("#/profiles", url=gateway, routes=own_profile().routes)
    alarms = card(page, "alarms")
    alarms.get_by_label("Key").fill("anna")
    alarms.get_by_label("Key").press("Enter")
    expect(alarms.locator(".tile")).to_have_text(
        ["1hPlays3Minutes of agents1.5 s", "everPlays9Minutes of agents2 h 5 min"], timeout=PATIENT_MS
    )
    expect(card(page, "habits").locator(".facts")).to_contain_text("Long2 h 15 min")
    page.set_viewport_size({"width": 380, "height": 800})
    lines = alarms.get_by_role("rowheader", name="minutes_of_agents").evaluate(LINES_OF_WORDS)
    assert lines == [1] * len(lines)


def test_an_answer_of_another_key_is_not_shown(show: Open, gateway: str) -> None:
    stub = Stub()
    page = show("#/profiles", url=gateway, routes=stub.routes)
    habits = card(page, "habits")
    expect(habits.locator(".tile")).to_have_count(3, timeout=PATIENT_MS)
    page.route("**/v1/users/99/habits", lambda _route: None)
    habits.get_by_label("Key").fill("99")
    habits.get_by_label("Key").press("Enter")
    expect(habits.get_by_role("heading", name="Live, key 99")).to_be_visible()
    expect(habits.locator(".tile").first).to_be_hidden()


def test_the_focus_covers_no_hint(show: Open, gateway: str) -> None:
    page = show("#/profiles", url=gateway, routes=own_profile().routes)
    key = card(page, "alarms").get_by_label("Key")
    key.focus(timeout=PATIENT_MS)
    hint = card(page, "alarms").get_by_text("Type a key")
    assert bottom(key) + RING <= top(hint)
    page.goto(f"{gateway}/#/explore?path=%2Fv1%2Faccounts%2Falarms%2Ffind&where=plays_1h.ge.1")
    where, hint = page.get_by_label("where"), page.get_by_text("comparisons, such as plays_7d.ge.100")
    where.focus()
    assert bottom(page.get_by_text("where", exact=True)) <= top(where) - RING
    assert bottom(where) + RING <= top(hint)


def test_things_of_one_name_have_a_row_each(show: Open, gateway: str) -> None:
    metrics = {
        **HABIT,
        "name": "metrics",
        "path": "/v1/users/<key>/metrics",
        "measures": {"tracks": {"top": 10, "of": "trackId"}},
    }
    tracks = [{"id": n, "name": "One name" if n < 9 else None, "countPlays": 20 - n} for n in range(10)]
    answer = {"topTenTracks": tracks, "values": ["1", 1, "1"], "warnings": []}
    stub = Stub(**{"/v1/habits/processors": {"views": [view(metrics)]}, "/v1/users/42/metrics": answer})
    stub.answers["/v1/system"]["services"][0]["troubles"] = ["no schema"] * 2
    page = show("#/profiles", url=gateway, routes=stub.routes)
    rows = card(page, "metrics").locator(".bars li")
    expect(rows).to_have_count(10, timeout=PATIENT_MS)
    page.evaluate("document.querySelectorAll('.bars li')[1].dataset.kept = 'yes'")
    tracks[1]["countPlays"] = 99
    tracks.insert(0, tracks.pop(1))
    expect(rows.first).to_have_text("One name99 ", timeout=POLLED_MS)
    assert rows.first.get_attribute("data-kept") == "yes"
    expect(rows).to_have_count(10)
    page.goto(f"{gateway}/#/system")
    troubles = page.get_by_role("article", name="habits", exact=True).locator(".troubles li")
    expect(troubles).to_have_count(2)
    stub.answers["/v1/system"]["services"][0]["troubles"] = ["no schema", "no topic"]
    expect(troubles).to_have_text(["no schema", "no topic"], timeout=POLLED_MS)


def test_a_call_has_no_answer_before_it_is_asked(show: Open, gateway: str) -> None:
    stub = own_profile()
    page = show("#/explore?path=%2Fv1%2Faccounts%2Falarms%2Ffind&where=plays_1h.ge.1", url=gateway, routes=stub.routes)
    answer = page.locator("pre")
    expect(answer).to_contain_text("anna", timeout=PATIENT_MS)
    expect(page.get_by_label("where", exact=True)).to_have_attribute("required", "")
    expect(page.get_by_label("limit (optional)")).to_be_visible()
    stub.answers["/v1/accounts/alarms/find"]["keys"] = ["bert"]
    page.get_by_role("button", name="Ask").click()
    expect(answer).to_contain_text("bert")
    page.get_by_label("Call").select_option("/v1/topics/bookings/{key}/windows")
    expect(answer).to_have_count(0)
    page.get_by_label("key", exact=True).fill("7")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("heading", name="Windows of the key 7")).to_be_visible()
    page.get_by_label("Call").select_option("/v1/topics/bookings/{key}")
    expect(page.get_by_role("img")).to_have_count(0)
    page.goto(f"{gateway}/#/explore?path=%2Fv1%2Fgone")
    expect(page.get_by_role("alert")).to_have_text("No service answers at /v1/gone. Choose another call.")
    expect(answer).to_have_count(0)
    page.get_by_label("Call").select_option("/v1/topics/bookings/{key}")
    expect(page.get_by_role("alert")).to_be_hidden()


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
