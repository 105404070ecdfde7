"""The pieces that folds are made of: tables and their joins, interval joins, windows, sessions, pages.

Pure: nothing here knows Kafka, Redis, Spark or HTTP.
"""
