"""Kafka topics folded into partitioned, queryable state.

A service author imports the modules of this folder; docs/architecture.md describes the folders below.
"""
