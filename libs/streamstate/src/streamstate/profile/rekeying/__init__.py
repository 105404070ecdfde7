"""A profile whose key is a member of the values: the records again, in a topic with this key."""
