"""Metrics, with a fold that fails at an artist."""
