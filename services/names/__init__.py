"""Artists, albums and tracks by id, and what each user played most recently, with names."""
