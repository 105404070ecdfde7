"""What is asked of Kafka and told to it, apart from the records that Spark reads.

Nothing here knows Redis, Spark or HTTP.
"""
