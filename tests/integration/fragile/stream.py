"""The stream deployment."""

from streamstate.spark.main import main
from tests.integration.fragile.model import APP

if __name__ == "__main__":
    main(APP)
