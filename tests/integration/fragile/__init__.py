"""A service that a record can stop, and that learns to decode another kind of record while it runs."""
