"""The stream process: queries over Kafka whose tasks fold and commit.

Nothing here knows HTTP answers; an API image has no Spark.
"""
