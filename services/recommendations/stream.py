"""The stream deployment of recommendations."""

from services.recommendations.model import APP
from streamstate.spark.main import main

if __name__ == "__main__":
    main(APP)
