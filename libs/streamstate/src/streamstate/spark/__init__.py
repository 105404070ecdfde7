"""The stream side: a PySpark driver that folds the partitions which the consumer group gives to this instance."""
