"""A state held against a recount of its topics.

Reads Kafka and Redis as they are, not through an API.
"""
