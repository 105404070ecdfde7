"""Flask itself knows all routes, and answers as the server does."""

import re
from typing import Any

from flask.cli import routes_command
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from streamstate.view import ADMIN
from tests.unit.gateway.guarding import Guarded

OWN = {"X-Request-Id", "State-Age-Ms", "Ratelimit", "Content-Length", "Served-By"}
"""Headers with a value of their own in each answer."""

MOMENTARY = re.compile("/metrics$|system|recommendations|processors|^/v1/users/<key>$")
"""Routes with another body at each request: counts, and random walks."""


def told(response: TestResponse) -> tuple[int, dict[str, str], bytes]:
    headers = {name: text for name, text in response.headers if name.title() not in OWN}
    return response.status_code, headers, response.get_data()


def test_flask_lists_every_route(guarded: Guarded) -> None:
    output = guarded.app.flask.test_cli_runner().invoke(routes_command).output
    assert [route.path for route in guarded.app.flask.table.values() if route.path not in output] == []


def test_flasks_client_gets_the_answer_of_the_server_at_every_route(guarded: Guarded) -> None:
    client: FlaskClient = guarded.deployment.built().flask.test_client()
    credential: dict[str, Any] = {"Authorization": f"Bearer {guarded.keys[ADMIN]}"}
    for rule, path in guarded.paths().items():
        ours = client.get(path, headers=credential, buffered=False)
        if rule.endswith("/stream"):
            assert (ours.status_code, ours.content_type) == (200, "text/event-stream")
            assert any(b"data: " in chunk for chunk in ours.iter_encoded())
            ours.close()
            continue
        status, headers, body = told(ours)
        expected = told(guarded.get(path, guarded.keys[ADMIN]))
        assert (status, headers) == expected[:2], path
        assert MOMENTARY.search(rule) or body == expected[2], path


def test_flask_answers_an_unknown_path_and_a_wrong_method_as_the_server_does(guarded: Guarded) -> None:
    client = guarded.deployment.built().flask.test_client()
    credential = {"Authorization": f"Bearer {guarded.keys[ADMIN]}"}
    assert client.get("/none", headers=credential).get_json(force=True)["status"] == 404
    assert client.delete("/livez", headers=credential).get_json(force=True)["status"] == 405
    assert client.get("/v1/users/1").get_json(force=True)["status"] == 401
