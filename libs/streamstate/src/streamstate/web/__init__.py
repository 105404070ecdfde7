"""The API process: views of the state over HTTP. Nothing here knows Spark; reads need no Kafka."""
