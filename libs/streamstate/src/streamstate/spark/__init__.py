"""The stream process: queries over Kafka whose tasks fold and commit.

The package knows no HTTP answers; an API image has no Spark.
"""
