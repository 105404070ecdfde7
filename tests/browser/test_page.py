"""The page in a real browser, over real services, with events while the page is open."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from devkit.cluster.local_cluster import get
from devkit.events import feed, records
from streamstate.kafka.producer import Outgoing, send_all
from streamstate.keys import LONG
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from tests.browser.conftest import Later, Open, looks
from tests.integration.driving import Driving
from tests.waiting import PATIENCE_S, until

SOON_MS = 2_000
PATIENT_MS = 30_000
USER = 1
SCRIPT = """<img src=x onerror="document.title='broken out'">"""
PICTURES = (
    "home-desktop-light.png",
    "profiles-desktop-light.png",
    "system-desktop-dark.png",
    "user-desktop-light.png",
    "user-phone-dark.png",
)
CHARTED_S = 12
LINES, PARTITIONS = 24_000, 8
VIEWS = {
    "home": ("#/", ".example .bars li"),
    "user": (f"#/users/{USER}", ".advice li"),
    "system": ("#/system", ".map li"),
    "profiles": ("#/profiles", ".tile"),
    "explore": ("#/explore?path=%2Fv1%2Fusers%2F%7Bkey%7D%2Fmetrics&key=1", "pre"),
}


def play(driving: Driving, user: int, track: tuple[int, int, int]) -> None:
    driving.feed([records.event(user, *track, feed.now_ms())])


def favourite(driving: Driving, user: int) -> dict[str, Any]:
    """The artist whom a user played most."""
    profile = driving.get(f"/v1/users/{user}/metrics").json()
    artist: dict[str, Any] = profile["topTenArtists"][0]
    return artist


def row(page: Page, name: str) -> Locator:
    """The artist with this name among the most played ones."""
    return page.locator(".bars").first.locator("li").filter(has=page.get_by_text(name, exact=True))


def bar_width(row: Locator) -> float:
    box = row.locator(".fill").bounding_box()
    assert box is not None
    return box["width"]


def plays(page: Page) -> int:
    """Wait until the page shows the number of plays, and return the number."""
    shown = page.locator(".facts .big")
    expect(shown).to_have_text(re.compile(r"\d"), timeout=PATIENT_MS)
    return int(shown.inner_text().replace(",", ""))


def live(page: Page) -> None:
    expect(page.locator(".mark").first).to_have_text("live", timeout=PATIENT_MS)


def test_a_stream_that_does_not_fold_says_why_on_the_page(show: Open, driving: Driving) -> None:
    """As in `streamstate status`, through the state and the API."""
    owner = get(f"{driving.cluster.url}/v1/system")["services"][0]["owners"][0]["address"]
    store, reason = RedisStore(connect(driving.cluster.redis.url, 5.0), "metrics"), "the schema 7 is not there"
    page = show("#/system")
    store.report_trouble(owner, reason, 60_000)
    trouble = page.get_by_role("article", name="metrics").locator(".troubles li")
    expect(trouble).to_have_text(reason, timeout=PATIENT_MS)
    store.report_trouble(owner, "", 1)
    expect(trouble).to_have_count(0, timeout=PATIENT_MS)


def test_every_view_says_since_when_kafka_does_not_answer(show: Open) -> None:
    told = {"status": "ready", "kafka": "has not answered since 2026-11-28T22:41:07Z"}
    page = show("#/system", routes={"**/readyz": lambda route: route.fulfill(json=told)})
    text = "Kafka has not answered since 2026-11-28T22:41:07Z: these pages show the state of that time."
    for address in "#/system", f"#/users/{USER}":
        page.evaluate(f"location.hash = '{address}'")
        expect(page.get_by_role("alert").filter(has_text="Kafka")).to_have_text(text, timeout=PATIENT_MS)
        expect(page.locator(".mark").first).to_have_text("Kafka does not answer", timeout=PATIENT_MS)
    assert len(list(looks(page))) == 4
    del told["kafka"]
    live(page)
    expect(page.get_by_text(text)).to_have_count(0, timeout=PATIENT_MS)


def test_a_play_is_seen_without_a_reload(show: Open, driving: Driving) -> None:
    artist = favourite(driving, USER)
    page = show()
    page.get_by_label("User id").fill(str(USER))
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"User {USER}")
    live(page)
    page.evaluate("document.body.dataset.kept = 'yes'")
    favoured = row(page, artist["name"])
    expect(favoured.locator(".count")).to_have_text(str(artist["countPlays"]), timeout=PATIENT_MS)
    before = bar_width(favoured)
    play(driving, USER, (artist["id"], 1, 1))
    expect(favoured.locator(".count")).to_have_text(str(artist["countPlays"] + 1), timeout=SOON_MS)
    until(lambda: bar_width(favoured) > before, "the bar to grow")
    assert page.evaluate("document.body.dataset.kept") == "yes"


def test_a_profile_says_why_and_what_was_played_last(show: Open, driving: Driving) -> None:
    page = show(f"#/users/{USER}")
    expect(page.locator(".advice .why").first).to_contain_text("because of", timeout=PATIENT_MS)
    profile = driving.get(f"/v1/users/{USER}?parts=metrics,recent").json()
    expect(page.locator(".recent li").first).to_contain_text(profile["recent"][0]["artistName"])
    assert plays(page) == profile["eventCount"]


def test_a_declared_part_counts_a_play_in_each_window(show: Open, driving: Driving) -> None:
    page = show(f"#/users/{USER}")
    numbers = page.get_by_role("region", name="Habits").locator(".tile .measure:has-text('Plays') .value")
    expect(numbers).to_have_count(3, timeout=PATIENT_MS)
    before = [int(text.replace(",", "")) for text in numbers.all_text_contents()]
    play(driving, USER, (1, 1, 1))
    expect(numbers).to_have_text([f"{number + 1:,}" for number in before], timeout=SOON_MS)


def test_profiles_and_topics_are_those_of_the_services(show: Open, driving: Driving) -> None:
    profiles, topics = show("#/profiles"), show("#/explore")
    release = profiles.get_by_role("table", name="Releases of habits").get_by_role("row", name="habits")
    expect(release).to_contain_text(re.compile("live.*ready.*≈ .*B$"), timeout=PATIENT_MS)
    busy = topics.locator("ol.charts > li").filter(has_text="listening-events")
    expect(busy).to_have_count(1, timeout=PATIENT_MS)
    tile = profiles.get_by_role("article", name="habits").locator(".tile .value").first
    number = int(tile.inner_text().replace(",", ""))
    play(driving, USER, (1, 1, 1))
    expect(tile).to_have_text(f"{number + 1:,}")
    expect(topics.get_by_role("region", name="Users").get_by_role("link").first).to_have_text(str(USER))
    expect(busy.locator(".value")).to_have_text(re.compile("0[.][1-9]/s"))


def test_an_unknown_user_appears_with_the_first_play(show: Open, driving: Driving) -> None:
    page = show("#/users/987654321")
    unknown = page.get_by_text("Nothing is known of this user")
    expect(unknown).to_be_visible(timeout=PATIENT_MS)
    play(driving, 987654321, (1, 1, 1))
    assert plays(page) == 1
    expect(unknown).to_be_hidden()


def test_a_name_is_text(show: Open, driving: Driving) -> None:
    artist = 4_711
    feed.send_names(driving.out, [records.name("artists", artist, SCRIPT)])
    play(driving, 77_777, (artist, 1, 1))
    driving.settle()
    page = show("#/users/77777")
    expect(row(page, SCRIPT)).to_be_visible(timeout=PATIENT_MS)
    expect(page.locator("main img")).to_have_count(0)
    assert page.title() == "User 77777 · User profiles"


def test_an_instance_that_goes_is_seen_and_the_page_goes_on(show: Open, driving: Driving) -> None:
    cluster = driving.cluster
    address = cluster.addresses["metrics"][1]
    metrics = next(service for service in driving.get("/v1/system").json()["services"] if service["name"] == "metrics")
    lost = [owner["partition"] for owner in metrics["owners"] if owner["address"] == address]
    routes = ((user, driving.get(f"/v1/route/metrics/{user}").json()["views"][0]) for user in range(1, 100))
    user = next(user for user, route in routes if route["partition"] in lost)
    system, profile = show("#/system"), show(f"#/users/{user}")
    service = system.get_by_role("article", name="metrics")
    ready = service.locator(".map li[data-state=ready]")
    expect(ready).to_have_count(metrics["partitions"], timeout=PATIENT_MS)
    counted = plays(profile)
    gone = next(api for api in cluster.apis if api.name == "metrics-1")
    gone.kill()
    try:
        expect(ready).to_have_count(metrics["partitions"] - len(lost), timeout=SOON_MS)
        expect(service.locator(".legend .gone")).to_contain_text(address)
        expect(system.locator(".log li").first).to_contain_text("→ nobody")
        play(driving, user, (1, 1, 1))
        until(lambda: plays(profile) == counted + 1, "the play to be shown")
    finally:
        gone.start()
    expect(ready).to_have_count(metrics["partitions"], timeout=PATIENT_MS)


def test_dead_letters_are_shown_with_their_reasons(show: Open, driving: Driving) -> None:
    page = show("#/system")
    dead = page.get_by_role("article", name="metrics").locator(".dead")
    expect(page.get_by_role("article", name="metrics").locator(".map li").first).to_be_visible(timeout=PATIENT_MS)
    expect(dead).to_be_hidden()
    driving.feed([(LONG.encode(USER), b"no JSON"), (b"short", b"{}"), (LONG.encode(USER), b"no JSON either")])
    expect(dead.get_by_role("heading")).to_have_text("3 dead letters", timeout=PATIENT_MS)
    expect(dead.get_by_role("listitem")).to_have_text(
        ["2cannot be decodedDecodeError", "1cannot be decodedBadRecord"], timeout=PATIENT_MS
    )
    expect(dead.get_by_text("Records that could not be used; all others count.")).to_be_visible()
    expect(dead.get_by_text("streamstate dlq list metrics", exact=True)).to_be_visible()


def test_partitions_that_move_and_a_state_being_built_are_seen(show: Open, driving: Driving, later: Later) -> None:
    lines: Iterator[Outgoing] = (("lines", b"speaker %d" % n, b"to be or not to be", []) for n in range(LINES))
    send_all(driving.out, lines)
    page = show("#/system", url=later.url)
    metrics, words = (page.get_by_role("article", name=name) for name in ("metrics", "words"))
    ready = metrics.locator(".map li[data-state=ready]")
    moved = metrics.locator(f".map li[data-state=ready][title*='{later.address}']")
    expect(ready).to_have_count(PARTITIONS, timeout=PATIENT_MS)
    later.streams.start()
    later.streams.wait_until(later.owns, PATIENCE_S)
    expect(moved).not_to_have_count(0, timeout=SOON_MS)
    expect(page.locator(".log li").filter(has_text=f"→ {later.address}").first).to_be_visible()
    progress = set()
    while words.locator(".state").inner_text() != "ready":
        progress.add(words.locator("progress").evaluate("bar => bar.value"))
    assert any(0 < part < 1 for part in progress)
    expect(words.locator(".building")).to_be_hidden()
    later.streams.stop()
    until(lambda: not later.owns(), "partitions to move back")
    expect(moved).to_have_count(0, timeout=SOON_MS)


def test_the_page_reconnects_when_the_gateway_was_away(show: Open, driving: Driving) -> None:
    page = show(f"#/users/{USER}")
    counted = plays(page)
    gateway = driving.cluster.gateway
    gateway.kill()
    try:
        expect(page.locator(".mark")).to_have_text("reconnecting …", timeout=PATIENT_MS)
        play(driving, USER, (1, 1, 1))
    finally:
        gateway.start()
    live(page)
    until(lambda: plays(page) == counted + 1, "the play to be shown")


def test_a_key_is_explored_and_the_address_copied(show: Open, driving: Driving) -> None:
    page = show("#/explore", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("Call").select_option("/v1/artists/{key}")
    page.get_by_label("key", exact=True).fill("1")
    page.get_by_role("button", name="Ask").click()
    url = f"{driving.cluster.url}/v1/artists/1"
    expect(page.locator(".address code")).to_have_text(url, timeout=PATIENT_MS)
    expect(page.locator("pre")).to_contain_text(driving.get("/v1/artists/1").json()["name"])
    page.get_by_role("button", name="Copy address").click()
    expect(page.get_by_text("copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == url
    page.reload()
    expect(page.locator(".address code")).to_have_text(url, timeout=PATIENT_MS)


def test_the_keyboard_is_enough(show: Open) -> None:
    page = show()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("User id")).to_be_focused()
    page.keyboard.type(str(USER))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"User {USER}")
    expect(page.locator("main")).to_be_focused()
    for _ in range(4):
        page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("link", name="System")).to_be_focused()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("System")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_legible_and_fits(
    show: Open, driving: Driving, request: pytest.FixtureRequest, view: str
) -> None:
    address, content = VIEWS[view]
    page = show(address, reduced_motion="reduce")
    expect(page.locator(content).first).to_be_visible(timeout=PATIENT_MS)
    folder = request.config.getoption("--screenshots")
    for look in looks(page):
        if folder and (picture := f"{view}-{look}.png") in PICTURES:
            for _ in range(CHARTED_S):
                driving.feed(islice(driving.events, 100))
                page.wait_for_timeout(1_000)
            page.screenshot(path=folder / picture)
