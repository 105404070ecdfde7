"""`streamstate backup` and `streamstate restore`."""
