"""The least that Flask and gunicorn can do: what the owner's reads are held against."""

from flask import Flask
from streamstate.web.admission import Admission

from streamstate.settings import HttpSettings, load


def create() -> Flask:
    """For gunicorn: `devkit.bench.hello:create()`."""
    app = Flask(__name__)

    @app.get("/")
    def hello() -> dict[str, str]:
        return {"hello": "world"}

    Admission(load(HttpSettings).requests_in_flight, lambda _: None).install(app)
    return app
