"""The stream deployment of metrics."""

from services.metrics.model import APP
from streamstate.spark.main import main

if __name__ == "__main__":
    main(APP)
