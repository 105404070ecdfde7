"""Random walks over the graph, and the list of the most visited items."""
