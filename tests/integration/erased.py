"""A user of the ring who is deleted."""

USER = 987_654_321_012
"""An id that is nobody else's, so that its digits are found wherever they are."""
