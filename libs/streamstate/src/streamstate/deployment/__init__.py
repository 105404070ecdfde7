"""Common needs of every process: logging, number of cores, definitions of metrics, names of the deployment, threads.

The package knows no Kafka, Redis, Spark or HTTP.
"""
