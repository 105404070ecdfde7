"""Comparison of a state with a replay of its topics.

Reads Kafka and Redis directly, without an API.
"""
