"""The command `streamstate`: what it prints, and the calls of the library behind it.

How state, topics and dead letters work belongs in `state`, `kafka` and `processing`; nothing here knows a service.
"""
