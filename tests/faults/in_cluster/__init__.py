"""The gateway as in a cluster."""
