"""The stream deployment of names."""

from services.names.model import APP
from streamstate.spark.main import main

if __name__ == "__main__":
    main(APP)
