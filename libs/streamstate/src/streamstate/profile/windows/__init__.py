"""Trailing windows: of a key, from its history of events; over all keys, from sums by slot of time."""
