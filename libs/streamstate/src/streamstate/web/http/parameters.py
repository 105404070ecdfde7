"""Parameters of a query: a struct says their names, types, limits and defaults, here and in the OpenAPI document."""

from collections import Counter
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from functools import cache
from typing import TypeVar

import msgspec

from streamstate.errors import BadParameter
from streamstate.view import parameters
from streamstate.web.http.problems import Problem

_MOST_SHOWN = 40
"""Characters of a name in a problem."""

Q = TypeVar("Q", bound=msgspec.Struct)


def parse(kind: type[Q], query: Iterable[tuple[str, str]]) -> Q:
    """The parameters in `query`; parameters unknown to `kind` are ignored.

    Raises a 400 `Problem` that names the parameter, for a text of another type, a number beyond its limits, or a
    repeated parameter.
    """
    given = [(name, text) for name, text in query if name in kind.__struct_encode_fields__]
    lists = _lists(kind)
    for name, times in Counter(name for name, _ in given if name not in lists).items():
        if times > 1:
            raise bad_parameter(f"{name} is given {times} times; give it once")
    repeated = {name: [text for each, text in given if each == name] for name in lists.intersection(dict(given))}
    try:
        return parameters(kind, {**dict(given), **repeated})
    except BadParameter as error:
        raise bad_parameter(f"{error}; see /openapi.json for the limits") from error


@cache
def _lists(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that may be repeated."""
    fields = msgspec.structs.fields(kind)
    return frozenset(field.encode_name for field in fields if isinstance(field.default, tuple))


def require_known(query: Iterable[tuple[str, str]], known: Collection[str]) -> None:
    """Raise a 400 `Problem` for a parameter whose name is not in `known`."""
    for name, _ in query:
        if name not in known:
            shown = name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}…"
            if nearest := get_close_matches(name[:_MOST_SHOWN], known, n=1, cutoff=0):
                raise bad_parameter(f"{shown} is no parameter here; did you mean {nearest[0]}?")
            raise bad_parameter(f"{shown} is no parameter here; there are none")


def bad_parameter(detail: str) -> Problem:
    return Problem(400, "bad-parameter", detail)
