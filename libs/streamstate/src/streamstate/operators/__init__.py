"""The pieces that folds are made of: tables, joins, windows, pages.

Pure: nothing here knows Kafka, Redis, Spark or HTTP.
"""
