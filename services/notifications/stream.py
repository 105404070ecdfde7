"""The stream deployment of notifications."""

from services.notifications.model import app
from streamstate.spark.main import main

if __name__ == "__main__":
    main(app)
