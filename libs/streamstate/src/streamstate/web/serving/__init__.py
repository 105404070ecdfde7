"""The processes that serve: gunicorn's, each with an event loop, and the connections on it."""
