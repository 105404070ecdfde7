"""The records folded by jobs before a query starts: archived records, and slices of merged topics."""
