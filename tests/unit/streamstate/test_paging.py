"""Pages of a timeline: together they are the whole, in order, each entry once."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.operators.pages import PAGE_BYTES, Page
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Insert
from streamstate.state.store import Commit, OffsetAdvance


def parse(**given: str) -> Page:
    return msgspec.convert(given, Page, strict=False)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 5)),
    st.integers(1, 4),
    st.integers(0, 4),
    st.sampled_from(["asc", "desc"]),
)
def test_pages_follow_each_other(entries: dict[str, int], limit: int, first: int, order: str) -> None:
    store = MemoryStore()
    store.commit(Commit(store.claim(0, "a:1", {}), [OffsetAdvance("t", None, 1)], [Insert("i", "k", entries)]))
    given = {"from": str(first), "to": "5", "limit": str(limit), "order": order}
    page = parse(**given)
    assert (page.cut(store.read({0: page.reads("i:k")})[0].values) is None) == (entries == {})
    seen: list[tuple[str, int]] = []
    while (cut := page.cut(store.read({0: page.reads("i:k")})[0].values)) is not None:
        part, cursor = cut
        assert len(part) <= limit
        seen += part
        if cursor is None:
            break
        assert part
        page = parse(**given, cursor=cursor)
    wanted = [(text, time) for text, time in entries.items() if first <= time < 5]
    assert seen == sorted(wanted, key=lambda entry: (entry[1], entry[0]), reverse=order == "desc")


@pytest.mark.parametrize(("order", "expected"), [("asc", ["abc", "def", "g"]), ("desc", ["gfe", "dcb", "a"])])
def test_pages_of_many_bytes_end_early_and_follow_each_other_too(order: str, expected: list[str]) -> None:
    store = MemoryStore()
    entries = {f"{letter}{'x' * (PAGE_BYTES // 3)}": 1 for letter in "abcdefg"}
    store.commit(Commit(store.claim(0, "a:1", {}), [OffsetAdvance("t", None, 1)], [Insert("i", "k", entries)]))
    pages: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = parse(order=order, cursor=cursor) if cursor else parse(order=order)
        cut = page.cut(store.read({0: page.reads("i:k")})[0].values)
        assert cut is not None
        part, cursor = cut
        pages.append("".join(text[0] for text, _ in part))
    assert pages == expected


@pytest.mark.parametrize(
    "given",
    [
        {"from": "-1"},
        {"to": "x"},
        {"limit": "0"},
        {"limit": "1001"},
        {"order": "newest"},
        {"cursor": "1"},
        {"cursor": "-1.0"},
        {"cursor": ""},
    ],
)
def test_parameters_beyond_their_limits_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        parse(**given)
