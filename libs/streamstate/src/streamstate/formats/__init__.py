"""How the keys and values of topics are written: JSON, Avro, Protobuf, JSON Schema, Kafka's plain serializers.

Services read and write JSON or plain text. Where a topic has another format, its values become that before `decode`
gets them, and derived records leave it after the fold.
"""
