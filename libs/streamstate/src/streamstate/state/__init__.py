"""What may be written and read, and the stores that do it: in memory and in Redis.

Nothing here knows Kafka, Spark or HTTP.
"""
