"""`streamstate archive`: the files of an archive listed, compared with Kafka, and compacted."""
