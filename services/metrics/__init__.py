"""Per user: number of plays, first and last event, and the most played artists, albums and tracks."""
