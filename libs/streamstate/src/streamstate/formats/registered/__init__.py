"""Values that begin with the id of a schema: Avro, Protobuf and JSON Schema, as by Confluent's serializers."""
