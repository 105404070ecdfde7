"""What a service needs at Kafka and at Redis: the rights of its users, derived from what it is.

The documents, the command `streamstate acl` and the users of the tests are made from here.
"""
