"""Clients of event streams under load."""
