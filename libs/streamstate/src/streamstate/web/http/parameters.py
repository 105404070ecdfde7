"""Parameters of a query: a struct says their names, types, limits and defaults, here and in the OpenAPI document."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from streamstate.web.http.problems import Problem

Q = TypeVar("Q", bound=msgspec.Struct)


def parse(kind: type[Q], query: Iterable[tuple[str, str]]) -> Q:
    """The parameters in `query`; those that `kind` does not have are left aside.

    Raises a 400 `Problem` that names the parameter, for a text that is not of its type, a number beyond its limits, or
    one that is given twice.
    """
    given: defaultdict[str, list[str]] = defaultdict(list)
    for name, text in query:
        if name in kind.__struct_encode_fields__:
            given[name].append(text)
    if twice := [name for name, texts in given.items() if len(texts) > 1]:
        raise bad_parameter(f"{twice[0]} is given {len(given[twice[0]])} times; give it once")
    try:
        return msgspec.convert({name: texts[0] for name, texts in given.items()}, kind, strict=False)
    except msgspec.ValidationError as error:
        why, _, name = str(error).partition(" - at `$.")
        raise bad_parameter(f"{name.rstrip('`')}: {why}; see /openapi.json for the limits") from error


def bad_parameter(detail: str) -> Problem:
    return Problem(400, "bad-parameter", detail)
