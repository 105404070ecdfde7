"""From the records of a partition to one commit, and what decides whether they may be folded.

Pure: nothing here knows Kafka, Redis, Spark or HTTP.
"""
