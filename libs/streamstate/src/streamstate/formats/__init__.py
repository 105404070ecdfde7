"""The formats of keys and values in topics: JSON, Avro, Protobuf, JSON Schema, Kafka's plain serializers.

Services read and write JSON or plain text. Values of a topic in another format are converted before `decode`, and
derived records after the fold.
"""
