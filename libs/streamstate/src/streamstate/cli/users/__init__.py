"""The commands of `streamstate` that ask the gateway, as its other clients do: they need no access to Kafka or Redis.

What an answer means is the service's own: answers are shown as they are, whatever members they have.
"""
