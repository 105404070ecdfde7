"""Beyond Kafka's retention and the present state: past records, past answers, and copies of the state.

`archive` holds the records of topics as Parquet files; `answers` folds records again, or reads a copy, and answers
without the API; `backup` holds snapshots of Redis and their restore.
"""
