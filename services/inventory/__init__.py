"""The stock of every store, and orders matched with their payments."""
