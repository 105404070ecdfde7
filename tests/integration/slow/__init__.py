"""A service whose batches take a second."""
