"""Any Kafka topic as a read-only key-value store, by configuration."""
