"""Artists, albums and tracks by id, and the most recent plays of each user, with names."""
