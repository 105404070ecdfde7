"""The format of a topic, as declared by a deployment."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streamstate.keys import PARTITIONERS

REGISTERED = ("avro", "protobuf", "jsonschema")
"""Formats with a schema in the registry."""

KeyFormat = Literal["", "string", "long", "int", "double", "uuid", "bytes", "json", "avro", "protobuf", "jsonschema"]
ValueFormat = Literal["", "json", "avro", "protobuf", "jsonschema", "string", "long", "int", "double", "uuid", "bytes"]


class Format(BaseModel):
    """The format of one topic's records. Empty fields stand for the service's format."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: KeyFormat = Field(
        default="",
        description="the serializer of its keys, by the names of Kafka's own; json; avro, protobuf and jsonschema as "
        "Confluent's serializers",
    )
    key_field: str = Field(
        default="",
        pattern=r"^\w*$",
        description="the only member of keys of json, avro, protobuf or jsonschema; empty: the keys are no records",
    )
    key_schema: int = Field(
        default=0,
        ge=0,
        description="of keys with a schema, its id, as in REGISTRY/subjects/TOPIC-key/versions/latest",
    )
    partitioner: str = Field(
        default="",
        pattern=f"^({'|'.join(PARTITIONERS)})?$",
        description="how its producers place keys: murmur2 (Java, Kafka Streams), crc32 (librdkafka's default: Python, "
        "C, Go, .NET) or fnv1a (sarama)",
    )
    value: ValueFormat = Field(
        default="", description="the format of its values; avro, protobuf and jsonschema as Confluent's serializers"
    )
    fields: dict[str, str] = Field(
        default={},
        description="other names of members, by the name that the service reads, joined by dots for members within "
        'members: {"userId": "user_id", "artistId": "artist.id"}',
    )
    field: str = Field(
        default="",
        description="the member that is the value, where the service reads text and the topic has records; "
        "`value` when empty; likewise with dots",
    )
    header_ids: bool = Field(
        default=False,
        description="whether schema ids are in the headers `__key_schema_id` and `__value_schema_id`, by Confluent's "
        "HeaderSchemaIdSerializer",
    )
    bom: bool = Field(default=False, description="whether values of JSON or text may begin with a byte order mark")
    latest: bool = Field(
        default=False,
        description="of a topic that is written: whether its schema is the latest version in the registry, and none is "
        "registered",
    )
    message: str = Field(
        default="",
        pattern=r"^([\w.]+:\w+)?$",
        description="of a Protobuf topic that is read, the class in a module of yours: package.events_pb2:Event; "
        "built from the registry's schema when empty",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.field and not self.value:
            msg = "field needs value, such as json"
            raise ValueError(msg)
        if self.message and self.value != "protobuf":
            msg = "message is for values of the format protobuf"
            raise ValueError(msg)
        if self.bom and self.value not in ("", "json", "string"):
            msg = "bom is for values of JSON or text"
            raise ValueError(msg)
        if self.latest and self.value not in REGISTERED:
            msg = "latest is for values of avro, protobuf or jsonschema"
            raise ValueError(msg)
        by_id = self.key in REGISTERED and not self.header_ids
        if by_id != bool(self.key_schema) or (self.key_field and self.key not in (*REGISTERED, "json")):
            msg = "key_schema, the id of a schema, and key_field are for keys of avro, protobuf or jsonschema"
            raise ValueError(msg)
        if self.header_ids and not {self.key, self.value} & {*REGISTERED}:
            msg = "header_ids is for keys or values of avro, protobuf or jsonschema"
            raise ValueError(msg)
        if self.key == "protobuf" and not self.key_field:
            msg = "a key of protobuf is a message: name its member by key_field"
            raise ValueError(msg)
        return self

    @property
    def registered(self) -> bool:
        """Whether its keys or values have schemas in the registry."""
        return self.key in REGISTERED or (self.value in REGISTERED and not self.message)
