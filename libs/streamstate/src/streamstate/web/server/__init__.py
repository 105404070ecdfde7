"""The ASGI server: gunicorn's worker, the adapter to Flask, documents, probes and counts.

Nothing here knows what is answered.
"""
