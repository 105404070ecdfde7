"""Operations and reads, and their stores: in memory and in Redis.

The package knows no Kafka, Spark or HTTP.
"""
