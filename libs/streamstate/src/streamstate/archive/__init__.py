"""Records of topics kept in Parquet files, each named by its offsets.

The package knows no Kafka client, Redis or Spark. `segments` decides by file names alone, `files` lists, writes and
reads.
"""
