"""Users by the first digits of their ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.search import DRAWN, MOST_DIGITS, candidates, drawn, tried
from streamstate.keys import LONG, LONG_MAX
from tests.unit.gateway.deployment import FAN, USER, Services

PREFIXES = st.one_of(st.just(""), st.integers(0, LONG_MAX).map(str))


@given(PREFIXES, st.integers(0, MOST_DIGITS))
def test_candidates_are_the_ids_that_begin_so(prefix: str, more: int) -> None:
    found = candidates(prefix, more)
    assert [LONG.parse(text) for text in found] == sorted(map(int, found))
    assert all(text.startswith(prefix) and len(text) == len(prefix) + more for text in found)
    assert len(found) <= 10**more


def test_all_ids_of_a_length_are_candidates() -> None:
    assert candidates("", 1) == list("0123456789")
    assert candidates("12", 1) == [f"12{digit}" for digit in range(10)]
    assert candidates("", 2)[0] == "10"
    assert candidates("0", 1) == []


@given(PREFIXES, st.integers(MOST_DIGITS + 1, 18))
def test_those_of_a_greater_length_are_drawn_from_all_of_them(prefix: str, more: int) -> None:
    found = drawn(prefix, more)
    assert found == drawn(prefix, more)
    assert [LONG.parse(text) for text in found] == sorted(set(map(int, found)))
    assert all(text.startswith(prefix) and len(text) == len(prefix) + more for text in found)
    # The ids that begin with 0 or are too large are left out.
    fitting = prefix not in ("", "0") and len(prefix) + more < len(str(LONG_MAX))
    assert len(found) == DRAWN if fitting else len(found) <= DRAWN


@given(PREFIXES)
def test_a_search_tries_a_bounded_number_of_ids(prefix: str) -> None:
    assert sum(map(len, tried(prefix))) <= 1_111 + 1_024


def test_a_user_with_a_long_id_is_suggested(deployment: Services) -> None:
    user = int(drawn("7", 8)[20])
    deployment.play([(user, 1, 2, 3, 1_000)])
    assert deployment.gateway().get("/v1/users?prefix=7").get_json() == {"users": [user]}


@pytest.mark.parametrize(
    ("query", "users"),
    [
        ("", [USER, FAN, 400, 4_100]),
        ("?prefix=4", [USER, FAN, 400, 4_100]),
        ("?prefix=4&limit=1", [USER]),
        ("?prefix=42", [USER]),
        ("?prefix=41", [4_100]),
        ("?prefix=5", []),
        ("?prefix=0", []),
        ("?prefix=9223372036854775807", []),
    ],
)
def test_users_who_exist_those_with_short_ids_first(deployment: Services, query: str, users: list[int]) -> None:
    deployment.play([(4_100, 1, 2, 3, 1_000), (400, 1, 2, 3, 1_000)])
    # Without a prefix, ids of four digits are too many.
    expected = [user for user in users if query or user < 1_000]
    assert deployment.gateway().get(f"/v1/users{query}").get_json() == {"users": expected}


@pytest.mark.parametrize("query", ["prefix=x", "prefix=01", "prefix=-1", "limit=0", "limit=101", "prefix=1&prefix=2"])
def test_a_search_that_is_none(deployment: Services, query: str) -> None:
    assert deployment.gateway().get(f"/v1/users?{query}").status_code == 400
