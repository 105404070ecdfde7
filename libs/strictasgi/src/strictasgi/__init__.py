"""A strict HTTP/1.1 server for ASGI 3 applications, and an HTTP/1.1 client with kept connections.

`worker.Worker` is a worker class of gunicorn, `server.Server` serves on a running event loop, `client.ConnectionPool`
asks servers, `overdue.Overdue` limits the time of awaited calls.
"""
