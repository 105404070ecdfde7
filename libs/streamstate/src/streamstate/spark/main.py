"""The entry point of a stream deployment."""

import sys

from streamstate.app import App
from streamstate.deployment.overrides import renamed
from streamstate.errors import Misconfigured
from streamstate.settings import StreamSettings, load
from streamstate.spark.process import run
from streamstate.spark.query import Hosted


def main(app: App) -> None:
    """One app, one instance, named and advertised as the environment says. Exits with 2 when a setting does not fit."""
    try:
        settings = load(StreamSettings)
        app = renamed(app, settings.name, settings.topics)
    except Misconfigured as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from error
    run([Hosted(app, settings.instance, settings.advertise)], settings)
