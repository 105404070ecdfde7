"""Partitions folded again into memory by the stream's own writer: for `verify`, earlier answers and training sets."""
