"""The graph of listeners and items in memory, updated from the state."""
