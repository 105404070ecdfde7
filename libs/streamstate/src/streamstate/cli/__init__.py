"""The command `streamstate`: its output, and the underlying calls of the library.

Rules of state, topics and dead letters belong in `state`, `kafka` and `processing`; the package knows no service.
"""
