"""Parameters and bodies of requests: times in the forms of people, and refusals in their words."""

import itertools
from contextlib import suppress

import msgspec
import pytest

from devkit.registry import SERVICES, app
from services.gateway.search import Search
from services.recommendations.answers import AllParameters, Parameters
from streamstate.operators.pages import Page
from streamstate.profile.answer import Moment
from streamstate.profile.indexes.views import FindKeys
from streamstate.profile.rules.crossings import NextCrossings
from streamstate.web.http.parameters import parse
from streamstate.web.http.problems import Problem
from streamstate.web.views import posted

KINDS = {view.query for service in SERVICES for view in app(service).views if view.query}
KINDS |= {Search, Parameters, AllParameters, FindKeys, NextCrossings}
TEXTS = ("x", "", "-1", "1.5", "9" * 25, "9" * 5_000, "٣", "null", "[]", "2026-11-28T20:00:00+01")
WORDS = ("`", "Expected", "regex", "codec", "None")
NOVEMBER = 1_795_896_000_000


@pytest.mark.parametrize(
    "text", ["2026-11-28T20:00:00Z", "2026-11-28T21:00:00+01:00", "2026-11-28 20:00", str(NOVEMBER)]
)
def test_a_time_is_iso_8601_or_milliseconds(text: str) -> None:
    assert parse(Moment, [("at", text)]).at == NOVEMBER
    page = parse(Page, [("from", text), ("to", text)])
    assert (page.from_, page.to) == (NOVEMBER, NOVEMBER)


def test_a_text_that_is_no_time_is_refused_with_an_example() -> None:
    for text in ("yesterday", "2026-13-01", "", "12:30"):
        with pytest.raises(Problem) as refused:
            parse(Moment, [("at", text)])
        assert refused.value.detail.startswith(f"at: {text!r} is no time; write 2026-01-31T09:00:00Z, or milliseconds")


@pytest.mark.parametrize("kind", sorted(KINDS, key=str))
def test_a_refusal_names_the_parameter_and_no_type_of_python(kind: type[msgspec.Struct]) -> None:
    refusals: list[tuple[str, str]] = []
    for name, text in itertools.product(kind.__struct_encode_fields__, TEXTS):
        with suppress(Problem):
            parse(kind, [(name, text)])
            continue
        with pytest.raises(Problem) as refused:
            parse(kind, [(name, text)])
        refusals.append((name, refused.value.detail))
    assert refusals
    for name, detail in refusals:
        assert detail.startswith(f"{name}: ")
        assert not [word for word in WORDS if word in detail], detail


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[1]", "expected a map, found a list; send a JSON object with"),
        (b'{"metrics": 1}', "expected a list, found a whole number; send"),
        (b'{"metrics": [1.5]}', "expected a whole number or a text, found a number; send"),
        (b'{"metrics": [null]}', "expected a whole number or a text, found nothing; send"),
        (b'{"\xff": [1]}', "the body is not UTF-8; send"),
        (b"{", ""),
        (b"", ""),
        (b'{"metrics": [%s]}' % b",".join([b"1"] * 2_000), "expected a list of length <= 1000; send"),
    ],
)
def test_a_body_is_refused_without_types_of_python(body: bytes, reason: str) -> None:
    with pytest.raises(Problem) as refused:
        posted(body)
    assert refused.value.detail.startswith(reason)
    assert not [word for word in WORDS if word in refused.value.detail]
