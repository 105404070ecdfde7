"""Schemas of service types: structs of strings, numbers, truth values and optional values of these types."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from streamstate.errors import Misconfigured
from streamstate.formats.registered.registry import Schema

Names = Mapping[str, str]
"""Of members in the topic, by the service's name."""

_AVRO: Mapping[type, str] = {
    inspect.IntType: "long",
    inspect.StrType: "string",
    inspect.FloatType: "double",
    inspect.BoolType: "boolean",
}
_PROTOBUF: Mapping[type, str] = {
    inspect.IntType: "int64",
    inspect.StrType: "string",
    inspect.FloatType: "double",
    inspect.BoolType: "bool",
}

_SAMPLES: Mapping[type, Any] = {
    inspect.IntType: 1,
    inspect.StrType: "a",
    inspect.FloatType: 1.5,
    inspect.BoolType: True,
}


def schema(value: str, kind: type, names: Names) -> Schema:
    """The schema of `kind` in a format. Raises `Misconfigured` for an unsupported type."""
    match value:
        case "avro":
            return Schema("AVRO", json.dumps(_avro(kind, names)))
        case "protobuf":
            return Schema("PROTOBUF", _protobuf(kind, names))
        case _:
            return Schema("JSON", json.dumps(_json(kind, names)))


def sample(kind: type) -> Any:
    """A value of `kind`, with all members, by the names that the service writes."""
    described = inspect.type_info(kind)
    if not isinstance(described, inspect.StructType):
        return _SAMPLES[type(described)]
    return {field.encode_name: _SAMPLES[type(_optional(field.type)[0])] for field in described.fields}


def _avro(kind: type, names: Names) -> Any:
    described = inspect.type_info(kind)
    if not isinstance(described, inspect.StructType):
        return _scalar(described, _AVRO)
    members = []
    for field in described.fields:
        of, optional = _optional(field.type)
        name, scalar = names.get(field.encode_name, field.encode_name), _scalar(of, _AVRO)
        members.append(
            {"name": name, "type": ["null", scalar], "default": None} if optional else {"name": name, "type": scalar}
        )
    return {"type": "record", "name": kind.__name__, "fields": members}


def _protobuf(kind: type, names: Names) -> str:
    """The numbers of the members are their places: a later release may add some at the end."""
    described = inspect.type_info(kind)
    lines = [f"  {_scalar(described, _PROTOBUF)} value = 1;"] if not isinstance(described, inspect.StructType) else []
    for number, field in enumerate(described.fields if isinstance(described, inspect.StructType) else (), start=1):
        of, optional = _optional(field.type)
        name = names.get(field.encode_name, field.encode_name)
        lines.append(f"  {'optional ' if optional else ''}{_scalar(of, _PROTOBUF)} {name} = {number};")
    name = kind.__name__ if isinstance(described, inspect.StructType) else "Value"
    return "\n".join(['syntax = "proto3";', f"message {name} {{", *lines, "}", ""])


def _json(kind: type, names: Names) -> Any:
    (described,), definitions = msgspec.json.schema_components([kind], ref_template="{name}")
    if "$ref" not in described:
        # Apicurio Registry takes an object without properties for a schema only by its dialect.
        return {"$schema": "http://json-schema.org/draft-07/schema#", **described}
    record = definitions[described["$ref"]]
    properties = {names.get(name, name): each for name, each in record["properties"].items()}
    required = [names.get(name, name) for name in record.get("required", ())]
    return {**record, "properties": properties, "required": required}


def _optional(described: inspect.Type) -> tuple[inspect.Type, bool]:
    """The type of a member, and whether it may be null."""
    if not isinstance(described, inspect.UnionType):
        return described, False
    types = [each for each in described.types if not isinstance(each, inspect.NoneType)]
    return (types[0], True) if len(types) == 1 else (described, False)


def _scalar(described: inspect.Type, kinds: Mapping[type, str]) -> str:
    if type(described) not in kinds:
        msg = f"{type(described).__name__} has no schema here; write this topic as json"
        raise Misconfigured(msg)
    return kinds[type(described)]
