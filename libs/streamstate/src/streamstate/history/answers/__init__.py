"""Answers of views without the API: as of an earlier time, training sets, and the answers for all keys.

`logs` opens the logs behind a view, `feed` orders their records, `past` folds the records into memory and answers;
`columns` gives answers the columns of Parquet files.
"""
