"""The rights that a service's users need at Kafka and at Redis, derived from the app.

The documents, the command `streamstate acl` and the users of the tests are made from these rights.
"""
