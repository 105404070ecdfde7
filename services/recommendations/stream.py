"""The stream deployment of recommendations."""

from services.recommendations.model import app
from streamstate.spark.main import main

if __name__ == "__main__":
    main(app)
