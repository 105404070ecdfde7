"""Access commands: the keys of callers, and the rights that services need at Kafka and Redis."""
