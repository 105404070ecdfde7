"""The building blocks of folds: tables and their joins, interval joins, stream time, pages.

Pure: the package knows no Kafka, Redis, Spark or HTTP.
"""
