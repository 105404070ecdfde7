"""The commands about earlier states and about all keys: answers as of a time, training sets, and Parquet files."""
