"""The least that Flask and gunicorn can do: what the owner's reads are held against."""

from flask import Flask


def create() -> Flask:
    """For gunicorn: `devkit.bench.hello:create()`."""
    app = Flask(__name__)

    @app.get("/")
    def hello() -> dict[str, str]:
        return {"hello": "world"}

    return app
