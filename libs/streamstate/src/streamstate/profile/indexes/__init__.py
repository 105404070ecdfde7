"""Indexes of measures: keys found by a value."""
