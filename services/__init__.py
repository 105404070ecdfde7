"""The deployable services, one folder each."""
