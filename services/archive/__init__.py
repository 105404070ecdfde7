"""Keeps the records of topics as Parquet files: the archive."""
