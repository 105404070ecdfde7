"""The building blocks of folds: tables and their joins, interval joins, windows, sessions, pages.

Pure: the package knows no Kafka, Redis, Spark or HTTP.
"""
