"""Texts while a list changes and while the gateway is away are legible: no service but the gateway runs."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_page import PATIENT_MS
from tests.browser.test_parts import HABITS, NOW, POLLED_MS, Stub

LEAST_CONTRAST = 4.5
"""For text, by WCAG 2.2, level AA."""

STEPS = 20

HOLD = """
    () => {
        const animate = Element.prototype.animate;
        window.held = [];
        Element.prototype.animate = function (...given) {
            held.push(animate.apply(this, given));
            held.at(-1).pause();
            return held.at(-1);
        };
    }
"""
"""Stop all further animations at their beginning."""

MOVE = "(share) => held.forEach((each) => (each.currentTime = share * each.effect.getTiming().duration))"

LEAST = """
    (elements) => {
        const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        const parts = (color) => {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = color;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data].map((part) => part / 255);
        };
        const over = ([...top], below) => {
            const alpha = top[3] + below[3] * (1 - top[3]);
            const mixed = (at) => (top[at] * top[3] + below[at] * below[3] * (1 - top[3])) / (alpha || 1);
            return [mixed(0), mixed(1), mixed(2), alpha];
        };
        const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
        const contrast = (element) => {
            let paper = [0, 0, 0, 0], ink = parts(getComputedStyle(element).color);
            for (let at = element; at; at = at.parentElement) {
                const { backgroundColor, opacity } = getComputedStyle(at);
                [paper, ink] = [paper, ink].map((of) => over(of, parts(backgroundColor)));
                [paper, ink].forEach((of) => (of[3] *= opacity));
            }
            const [less, more] = [paper, ink].map((of) => light(over(of, [1, 1, 1, 1]))).sort((a, b) => a - b);
            return (more + 0.05) / (less + 0.05);
        };
        const texts = (each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        return Math.min(...elements.filter(texts).map(contrast));
    }
"""
"""The least contrast of the text of an element, as drawn with the opacity of the elements around."""


def plays(*tracks: int) -> list[dict[str, Any]]:
    """Plays with names, the newest first."""
    ids = {f"{kind}Id": 1 for kind in ("artist", "album")}
    names = {f"{kind}Name": "A name" for kind in ("artist", "album", "track")}
    return [{**ids, **names, "trackId": track, "timestamp": NOW + track} for track in tracks]


def least_contrast(page: Page) -> float:
    found: float = page.locator(".profile *:visible").evaluate_all(LEAST)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_new_play_is_legible_from_its_first_moment(show: Open, gateway: str, scheme: str) -> None:
    stub = Stub(habits=HABITS, recent=plays(1))
    page = show("#/users/42", url=gateway, routes=stub.routes, color_scheme=scheme)
    expect(page.locator(".recent li")).to_have_count(1, timeout=PATIENT_MS)
    page.evaluate(HOLD)
    stub.profile["recent"] = plays(2, 1)
    stub.profile["habits"]["devices"] = {"phone": 59, "car": 1}
    expect(page.locator(".recent li")).to_have_count(2, timeout=POLLED_MS)
    contrasts = []
    for step in range(STEPS + 1):
        page.evaluate(MOVE, step / STEPS)
        contrasts.append(round(least_contrast(page), 2))
    assert page.evaluate("held.length"), "nothing moves"
    assert min(contrasts) >= LEAST_CONTRAST, contrasts


def test_rows_do_not_overlap_while_they_change_places(show: Open, gateway: str) -> None:
    stub = Stub(habits=HABITS, recent=plays(1, 2, 3))
    page = show("#/users/42", url=gateway, routes=stub.routes)
    rows = page.locator(".recent li, .bars li")
    expect(page.locator(".recent li")).to_have_count(3, timeout=PATIENT_MS)
    page.evaluate(HOLD)
    stub.profile["recent"] = plays(3, 4, 2, 1)
    stub.profile["habits"]["devices"] = {"phone": 59, "radio": 60, "car": 61}
    expect(page.locator(".recent li")).to_have_count(4, timeout=POLLED_MS)
    for step in range(STEPS + 1):
        page.evaluate(MOVE, step / STEPS)
        edges = rows.evaluate_all(
            "rows => rows.map((row) => row.getBoundingClientRect()).map((r) => [r.left, r.top, r.bottom])"
        )
        for left, top, bottom in edges:
            assert not [each for each in edges if each[0] == left and top < each[1] < bottom - 1]
    assert page.evaluate("held.length"), "nothing glows"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_last_answer_is_legible_while_the_gateway_is_away(show: Open, gateway: str, scheme: str) -> None:
    stub = Stub(habits=HABITS, recent=plays(1))
    page = show("#/users/42", url=gateway, routes=stub.routes, color_scheme=scheme)
    expect(page.locator(".recent li")).to_have_count(1, timeout=PATIENT_MS)
    page.route("**/v1/users/*?*", lambda route: route.abort())
    expect(page.locator(".profile.stale")).to_be_visible(timeout=POLLED_MS)
    assert least_contrast(page) >= LEAST_CONTRAST
