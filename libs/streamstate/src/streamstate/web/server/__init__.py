"""The ASGI application: the adapter to Flask, documents, probes and counts, independent of the answers."""
