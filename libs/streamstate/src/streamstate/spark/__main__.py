"""The process of a stream: `python -m streamstate.spark services.metrics`."""

from streamstate import bootstrap
from streamstate.settings import StreamSettings
from streamstate.spark.process import run
from streamstate.spark.run import Hosted


def main(service: str) -> None:
    """Run one instance. Exits with `bootstrap.MISCONFIGURED` for an invalid setting or service."""
    with bootstrap.exiting():
        settings = bootstrap.configure(StreamSettings, service)
        app = bootstrap.app(service, settings)
        run([Hosted(app, settings.instance, settings.advertise)], settings)


if __name__ == "__main__":
    main(bootstrap.service_named("streamstate.spark"))
