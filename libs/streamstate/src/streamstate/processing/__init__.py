"""From the records of a partition to one commit, with the conditions of folding.

Pure: the package knows no Kafka, Redis, Spark or HTTP.
"""
