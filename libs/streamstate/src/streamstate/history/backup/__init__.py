"""Backups: snapshots (RDB) of every primary of a Redis, read by Redis servers of their own, and their restore."""
