"""Keys with schemas, as Confluent's serializers write them."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import SerializationContext

from streamstate.formats.registered import protobuf
from streamstate.formats.registered.registry import Schema
from streamstate.keys import LONG, KeyCodec

PROTO = 'syntax = "proto3";\nmessage Key {{ {} id = 1; }}\n'
Serialize = Callable[[Any], bytes]


def of_avro(client: SchemaRegistryClient, inner: KeyCodec[Any], context: SerializationContext) -> Serialize:
    member = {"name": "id", "type": "long" if inner is LONG else "string"}
    text = json.dumps({"type": "record", "name": "Key", "fields": [member]})
    write: Any = AvroSerializer(client, text)
    return lambda key: write({"id": key}, context)


def of_protobuf(client: SchemaRegistryClient, inner: KeyCodec[Any], context: SerializationContext) -> Serialize:
    schema = Schema("PROTOBUF", PROTO.format("int64" if inner is LONG else "string"))
    kind: Any = protobuf.message_class(schema, (0,))
    write: Any = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    return lambda key: write(kind(id=key), context)


def of_json(client: SchemaRegistryClient, inner: KeyCodec[Any], context: SerializationContext) -> Serialize:
    kind = {"type": "integer" if inner is LONG else "string"}
    text = json.dumps({"title": "Key", "type": "object", "properties": {"id": kind}})
    compact = partial(json.dumps, separators=(",", ":"), ensure_ascii=False)
    write: Any = JSONSerializer(text, client, json_encode=compact)
    return lambda key: write({"id": key}, context)


SERIALIZERS = {"avro": of_avro, "protobuf": of_protobuf, "jsonschema": of_json}
