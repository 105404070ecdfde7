"""The pieces that folds are made of: tables, joins, windows, sessions, pages.

Pure: nothing here knows Kafka, Redis, Spark or HTTP.
"""
