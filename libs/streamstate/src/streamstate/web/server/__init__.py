"""The ASGI server: gunicorn and its worker, the adapter to Flask, documents, probes and counts.

Nothing here knows what is answered.
"""
