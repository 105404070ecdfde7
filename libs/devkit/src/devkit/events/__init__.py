"""Listening events and other records, generated or read from files, and their way into Kafka."""
