"""Comparison of a state with a recount of its topics.

Reads Kafka and Redis directly, without an API.
"""
