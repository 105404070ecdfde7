"""The format of a topic, as declared by a deployment."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

PLAIN = ("string", "long", "int", "double", "uuid", "bytes")
"""Kafka's own serializers."""

REGISTERED = ("avro", "protobuf", "jsonschema")
"""Value formats with a schema in the registry."""

KeyFormat = Literal["", "string", "long", "int", "double", "uuid", "bytes"]
ValueFormat = Literal["", "json", "avro", "protobuf", "jsonschema", "string", "long", "int", "double", "uuid", "bytes"]


class Format(BaseModel):
    """The format of one topic's records. Empty fields stand for the service's format."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: KeyFormat = Field(default="", description="the serializer of its keys, by the names of Kafka's own")
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
        return self

    @property
    def registered(self) -> bool:
        """Whether its values have schemas in the registry."""
        return self.value in REGISTERED and not self.message
