"""Metrics, but for a fold that fails at one artist."""
