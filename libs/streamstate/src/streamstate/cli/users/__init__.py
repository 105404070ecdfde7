"""The commands of `streamstate` that call the gateway, like its other clients: they need no access to Kafka or Redis.

Answers are shown with all their members: their meaning belongs to the service.
"""
