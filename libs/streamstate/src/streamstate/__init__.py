"""Kafka topics folded into partitioned, queryable state.

The modules of this folder are what a service author imports; docs/architecture.md says what the folders below are for.
"""
