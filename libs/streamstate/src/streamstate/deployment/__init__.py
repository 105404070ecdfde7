"""What every process needs to start: its logs, its cores, its metrics' definitions, its deployment's own names.

Nothing here knows Kafka, Redis, Spark or HTTP.
"""
