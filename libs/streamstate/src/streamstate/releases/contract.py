"""The promises of an OpenAPI document, a line each: paths, parameters, and members of answers with their types."""

from collections.abc import Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]


def promises(document: Document) -> set[str]:
    """The lines; a later release keeps all of them."""
    schemas = document["components"]["schemas"]
    return {
        f"{method.upper()} {path} {promise}"
        for path, item in document["paths"].items()
        for method, operation in item.items()
        for promise in (*_parameters(operation), *_answers(operation, schemas))
    }


def requirements(document: Document) -> set[str]:
    """The required parameters, which a later release does not add to a path."""
    return {
        f"{method.upper()} {path} {parameter['name']}"
        for path, item in document["paths"].items()
        for method, operation in item.items()
        for parameter in operation.get("parameters", ())
        if parameter.get("required") and parameter["in"] != "path"
    }


def _parameters(operation: Document) -> Iterator[str]:
    for parameter in operation.get("parameters", ()):
        yield f"{parameter['in']} {parameter['name']}"


def _answers(operation: Document, schemas: Document) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            for content_type, content in answer.get("content", {}).items():
                yield f"{status} {content_type}"
                yield from (f"{status} {line}" for line in _members(content.get("schema", {}), schemas, ""))


def _members(schema: Document, schemas: Document, path: str, within: tuple[str, ...] = ()) -> Iterator[str]:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        if name not in within:
            yield from _members(schemas[name], schemas, path, (*within, name))
        return
    for choice in (*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
        yield from _members(choice, schemas, path, within)
    if kind := schema.get("type"):
        yield f"{path or '.'} {kind}"
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        if name in required:
            yield f"{path}.{name} always"
        yield from _members(member, schemas, f"{path}.{name}", within)
    for inner, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(inner), dict):
            yield from _members(schema[inner], schemas, f"{path}{mark}", within)


def broken(before: Document, after: Document) -> list[str]:
    """What a client of `before` misses in `after`, a line each: lost promises, and new required parameters."""
    lost = promises(before) - promises(after)
    wanted = requirements(after) - requirements(before)
    return [*(f"{line}: is gone" for line in sorted(lost)), *(f"{line}: is required" for line in sorted(wanted))]
