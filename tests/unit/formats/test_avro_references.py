"""Types of referenced schemas are read wherever a schema may name a type."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from streamstate.formats.registered import avro
from streamstate.formats.registered.registry import Schema

DEFINED: dict[str, Any] = {
    "m.Kind": {"type": "enum", "name": "Kind", "namespace": "m", "symbols": ["SONG", "TALK"]},
    "m.Play": {
        "type": "record",
        "name": "m.Play",
        "fields": [{"name": "id", "type": "long"}, {"name": "kind", "type": "Kind"}],
    },
    "Mark": {"type": "fixed", "name": "Mark", "size": 2},
}
REFERENCES = {name: json.dumps(defined) for name, defined in DEFINED.items()}
Typed = tuple[Any, st.SearchStrategy[Any]]
"""A schema and its values."""

kinds = st.sampled_from(["SONG", "TALK"])
NAMED: list[Typed] = [
    ("m.Kind", kinds),
    ("m.Play", st.fixed_dictionaries({"id": st.integers(0, 9), "kind": kinds})),
    ("Mark", st.binary(min_size=2, max_size=2)),
]


def around(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    """The schemas with a schema of `inner` in each place that a name may have."""
    return st.one_of(
        inner.map(lambda of: ({"type": "array", "items": of[0]}, st.lists(of[1], max_size=2))),
        inner.map(
            lambda of: ({"type": "map", "values": of[0]}, st.dictionaries(st.text(max_size=2), of[1], max_size=2))
        ),
        inner.filter(lambda of: not isinstance(of[0], list)).map(lambda of: ({"type": of[0]}, of[1])),
        inner.filter(lambda of: not isinstance(of[0], list)).map(lambda of: (["null", of[0]], st.none() | of[1])),
        st.tuples(inner, st.integers(0, 10**9)).map(
            lambda of: (
                {"type": "record", "name": f"In{of[1]}", "fields": [{"name": "a", "type": of[0][0]}]},
                st.fixed_dictionaries({"a": of[0][1]}),
            )
        ),
        st.just((["null", "Mark", "m.Play", {"type": "map", "values": "m.Kind"}], st.none() | NAMED[1][1])),
    )


def names(schema: Any) -> Iterator[str]:
    """The names that `schema` defines."""
    for inner in schema if isinstance(schema, list) else schema.values() if isinstance(schema, dict) else ():
        yield from names(inner)
    if isinstance(schema, dict) and "name" in schema and "type" in schema and "fields" in schema:
        yield schema["name"]


def inlined(schema: Any, defined: set[str]) -> Any:
    """`schema` with each name's definition where the name is first."""
    if isinstance(schema, list):
        return [inlined(each, defined) for each in schema]
    if isinstance(schema, dict) and [*schema] == ["type"]:
        return inlined(schema["type"], defined)
    if isinstance(schema, dict):
        return {
            name: inlined(inner, defined) if name in ("type", "items", "values", "fields") else inner
            for name, inner in schema.items()
        }
    name = f"m.{schema}" if f"m.{schema}" in DEFINED else schema
    if name not in DEFINED or name in defined:
        return name
    defined.add(name)
    return inlined(DEFINED[name], defined)


typed = st.recursive(st.sampled_from(NAMED), around, max_leaves=4).filter(
    lambda of: len(found := [*names(of[0])]) == len({*found})
)


@given(data=st.data(), of=typed)
def test_a_referenced_type_is_read_and_written_wherever_it_is_named(data: st.DataObject, of: Typed) -> None:
    text, values = of
    value = data.draw(values)
    written = BytesIO()
    schemaless_writer(written, parse_schema(inlined(text, set())), value)
    schema = Schema("AVRO", json.dumps(text), REFERENCES)
    assert avro.reader(schema, 5)(b"\0\0\0\0\1" + written.getvalue()) == value
    assert avro.writer(schema)(value) == written.getvalue()
