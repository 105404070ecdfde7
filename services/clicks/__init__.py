"""Clicks per region: a stream of clicks, joined with the table of the users' regions."""
