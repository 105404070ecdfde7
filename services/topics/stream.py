"""The stream deployment of topics."""

from services.topics.model import app
from streamstate.spark.main import main

if __name__ == "__main__":
    main(app)
