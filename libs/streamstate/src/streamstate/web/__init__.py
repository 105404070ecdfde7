"""The answering side: Flask applications over the state, and the way to the instance that owns a key."""
