"""Servers of a machine as child processes: Kafka, Redis, a schema registry."""
