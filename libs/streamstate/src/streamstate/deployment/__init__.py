"""What every process needs: logging, number of cores, definitions of metrics, names of the deployment, threads.

Nothing here knows Kafka, Redis, Spark or HTTP.
"""
