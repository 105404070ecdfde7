"""A user of the ring who is deleted."""

USER = 987_654_321_012
"""An id whose digits occur nowhere else, so that a search finds every trace."""
