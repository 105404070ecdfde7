"""Records of topics kept in Parquet files, each named by its offsets.

The package knows no Redis or Spark. `segments` and `planning` decide by names and sizes alone; `files` lists, writes
and reads.
"""
