"""The entry point of a stream deployment."""

from collections.abc import Callable
from typing import Any

from streamstate import bootstrap
from streamstate.app import App
from streamstate.settings import StreamSettings
from streamstate.spark.process import run
from streamstate.spark.query import Hosted


def main(app: App | Callable[[Any], App]) -> None:
    """Run one instance of an app, or of the app that a function makes of its settings.

    Exits with `bootstrap.MISCONFIGURED` when a setting does not fit.
    """
    with bootstrap.exiting():
        settings = bootstrap.configure(StreamSettings)
        hosted = Hosted(bootstrap.deployed(app, settings), settings.instance, settings.advertise)
    run([hosted], settings)
