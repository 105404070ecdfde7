"""Rules of a profile: a record when the value of a measure of a key crosses a line."""
