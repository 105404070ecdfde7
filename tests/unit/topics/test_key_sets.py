"""Ranges of a topic's keys: in key order over all partitions, each key once."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from werkzeug.test import Client

from services.topics.model import app
from services.topics.settings import KeptSettings, KeptTopic
from streamstate.functions.key_sets import NumberRange, TextRange, behind
from streamstate.keys import CODECS, partition_of
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver, FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from tests.raw import plain
from tests.serving import Loop

PARTITIONS = 3
Change = tuple[Any, bool]
"""A key, and whether its record has a value."""


def driver_of(kind: str, changes: list[Change]) -> Driver:
    kept = KeptTopic.model_validate({"topic": "t", "key": kind, "value": "text", "keys": True})
    driver = Driver(app(KeptSettings(kept=(kept,))), MemoryStore(), PARTITIONS)
    for offset, (key, valued) in enumerate(changes):
        raw = CODECS[kind].encode(key)
        driver.feed(partition_of(raw, PARTITIONS), {"t": [(offset, 1, raw, b"x" if valued else None)]})
    return driver


def ask(driver: Driver, kind: type[NumberRange | TextRange], **given: Any) -> Any:
    return plain(driver.view("topic-t-keys", query=msgspec.convert(given, kind, strict=False)))


def all_pages(driver: Driver, kind: type[NumberRange | TextRange], **given: Any) -> list[Any]:
    """The keys of all pages."""
    answer = ask(driver, kind, **given)
    keys = list(answer["keys"])
    while answer["next"] is not None:
        answer = ask(driver, kind, **given, cursor=answer["next"])
        keys += answer["keys"]
    return keys


quick = settings(max_examples=50)
numbers = st.sampled_from([0, 1, 9, 10, 11, 99, 100, 2**31, 2**53 + 1, 2**63 - 1])
texts = st.text("aé:\ud7ff\ue000\uffff\U0001f3b5\U0010ffff", min_size=1, max_size=3)
limits, orders = st.integers(1, 4), st.sampled_from(["asc", "desc"])


@quick
@given(st.lists(st.tuples(numbers, st.booleans()), max_size=20), limits, orders, numbers, numbers)
def test_pages_of_numbers_are_all_keys_in_order(
    changes: list[Change], limit: int, order: str, first: int, end: int
) -> None:
    given = {"from": first, "to": end, "limit": limit, "order": order}
    wanted = [key for key, valued in dict(changes).items() if valued and first <= key < end]
    assert all_pages(driver_of("long", changes), NumberRange, **given) == sorted(wanted, reverse=order == "desc")


@quick
@given(st.lists(st.tuples(texts, st.booleans()), max_size=20), limits, orders, texts, texts)
def test_pages_of_texts_with_a_prefix_are_all_keys_in_order(
    changes: list[Change], limit: int, order: str, prefix: str, end: str
) -> None:
    given = {"prefix": prefix, "to": end, "limit": limit, "order": order}
    wanted = [key for key, valued in dict(changes).items() if valued and key.startswith(prefix) and key < end]
    assert all_pages(driver_of("text", changes), TextRange, **given) == sorted(wanted, reverse=order == "desc")


@quick
@given(texts, texts)
def test_all_texts_with_a_prefix_and_no_others_are_before_what_is_behind_it(prefix: str, text: str) -> None:
    end = behind(prefix)
    assert text.startswith(prefix) == (prefix <= text and (not end or text < end))
    assert prefix.encode() < end.encode() or not end


def test_a_prefix_of_a_pair_names_all_of_its_first_part() -> None:
    driver = driver_of("pair", [(key, True) for key in ("a:2", "a:1:x", "a-b:1", "ab:1", "b:1")])
    assert ask(driver, TextRange, prefix="a:")["keys"] == ["a:1:x", "a:2"]


def test_every_key_comes_once_while_partitions_move(loop: Loop) -> None:
    keys = list(range(100))
    driver = driver_of("int", [(key, True) for key in keys])
    addresses = ["127.0.0.1:1", "127.0.0.1:2"]
    topics = FixedTopics({"t": PARTITIONS})
    apis = [
        build(driver.app, settings, MemoryReader(driver.store), Freshness(topics, driver.app.topics))
        for settings in (load(ApiSettings).model_copy(update={"advertise": address}) for address in addresses)
    ]
    clients = [Client(loop.wsgi(api)) for api in apis]
    seen: list[int] = []
    following: int | None = 0
    for turn in range(20):
        driver.store.claim(turn % PARTITIONS, addresses[turn // 2 % 2], {})
        after = f"&cursor={following}" if turn else ""
        answer = clients[turn % 2].get(f"/v1/topics/t?limit=7{after}").get_json()
        seen += answer["keys"]
        following = answer["next"]
        if following is None:
            break
    assert seen == keys
    document = clients[0].get("/openapi.json").get_json()
    validate(document)
    parameters = document["paths"]["/v1/topics/t"]["get"]["parameters"]
    assert {each["name"] for each in parameters if each["in"] == "query"} == {"from", "to", "order", "limit", "cursor"}
    assert clients[0].get("/v1/topics/t?from=x").status_code == 400
    assert clients[0].get("/v1/many?topic-t=7&topic-t=100").get_json()["topic-t"]["100"] is None
