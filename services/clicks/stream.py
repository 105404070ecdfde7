"""The stream deployment of clicks."""

from services.clicks.model import APP
from streamstate.spark.main import main

if __name__ == "__main__":
    main(APP)
