"""The ASGI application: the adapter to Flask, documents, probes and counts. It knows nothing of answers."""
