"""Calls to Kafka, apart from Spark's reading of records.

The package knows no Redis, Spark or HTTP.
"""
