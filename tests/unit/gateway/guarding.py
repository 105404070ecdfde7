"""The deployment with access on: keys, the token of instances, and what each route needs."""

from pathlib import Path
from typing import Any

from werkzeug.test import Client, TestResponse

from services.gateway.settings import AccessSettings
from streamstate.web.access import keys
from tests.serving import Loop, Serve
from tests.unit.gateway.deployment import USER, Services, started

OPEN, READ, EXPLORE, ADMIN = "open", "read", "explore", "admin"
NEEDED = {
    "/livez": OPEN,
    "/readyz": OPEN,
    "/": OPEN,
    "/page/<name>": OPEN,
    "/metrics": ADMIN,
    "/openapi.json": READ,
    "/docs": READ,
    "/docs/<name>": READ,
    "/v1/many": READ,
    "/v1/route/<service>/<key>": ADMIN,
    "/v1/rules/<rule>/stream": EXPLORE,
    "/v1/rules/<profile>/<rule>/stream": EXPLORE,
    "/v1/system": ADMIN,
    "/v1/system/stream": ADMIN,
    "/v1/users": EXPLORE,
    "/v1/users/<key>": READ,
    "/v1/users/<key>/stream": READ,
    "/v1/users/<key>/deletion": ADMIN,
    "/v1/users/<key>/export": ADMIN,
    "/v1/users/<key>/metrics": READ,
    "/v1/users/<key>/recent": READ,
    "/v1/users/<key>/recommendations": READ,
    "/v1/users/<key>/recommendations/artists": READ,
    "/v1/users/<key>/recommendations/albums": READ,
    "/v1/users/<key>/recommendations/tracks": READ,
    "/v1/artists/<key>/similar": READ,
    "/v1/albums/<key>/similar": READ,
    "/v1/tracks/<key>/similar": READ,
    "/v1/artists/<key>": READ,
    "/v1/albums/<key>": READ,
    "/v1/tracks/<key>": READ,
    "/v1/plays": EXPLORE,
    "/v1/plays/stream": EXPLORE,
    "/v1/metrics/processors": ADMIN,
    "/v1/metrics/processors/stream": ADMIN,
    "/v1/names/processors": ADMIN,
    "/v1/names/processors/stream": ADMIN,
    "/v1/recommendations/processors": ADMIN,
    "/v1/recommendations/processors/stream": ADMIN,
}
"""What each route of the gateway, and each view of a service, is for."""

QUERIES = {"/v1/many": f"?metrics={USER}"}
MAY = {READ: {READ}, EXPLORE: {EXPLORE}, ADMIN: {READ, EXPLORE, ADMIN}}
TOKEN = "internal-token-of-32-characters-x"


class Guarded:
    """The deployment with access on, and a key for each scope. `app` is the gateway, `client` asks it."""

    def __init__(self, home: Path, serve: Serve, loop: Loop, **access: Any) -> None:
        self.home = home
        self.keys = {scope: keys.generate() for scope in MAY}
        self.tokens, self.file = home / "tokens", home / "keys"
        self.tokens.write_text(TOKEN)
        self.write(*self.keys)
        http = {"access": "required", "internal_tokens": self.tokens}
        settings = AccessSettings(access_keys=self.file, **{"requests_per_s": 10_000, "cost_per_s": 100_000, **access})
        self.deployment = started(Services(serve, loop, http=http, access=settings))
        self.app = self.deployment.app()
        self.client = Client(loop.wsgi(self.app))

    def write(self, *scopes: str) -> None:
        """Let the file hold the keys of `scopes` alone."""
        line = '{{"name": "{0}", "sha256": "{1}", "scopes": ["{0}"]}}'
        self.file.write_text("\n".join(line.format(scope, keys.digest(self.keys[scope])) for scope in scopes))

    def get(self, path: str, credential: str = "", **headers: str) -> TestResponse:
        given = {"Authorization": f"Bearer {credential}"} if credential else {}
        return self.client.get(path, headers={**given, **headers})

    def paths(self) -> dict[str, str]:
        """Each route and view, and a request for it."""
        rules = {rule.rule for rule in self.app.flask.url_map.iter_rules()} - {"/v1/<path:rest>"}
        views = [view for _, view in self.deployment.owners().now.views]
        paths = {view.path for view in views} | {f"{view.path}/stream" for view in views if not view.key}
        return {rule: request(rule) for rule in rules | paths}


def request(rule: str) -> str:
    places = {
        "<key>": str(USER),
        "<service>": "metrics",
        "<path:filename>": "a.css",
        "<name>": "app.js",
        "<rule>": "binge",
        "<profile>": "habits",
    }
    for place, text in places.items():
        rule = rule.replace(place, text)
    return rule + QUERIES.get(rule, "")


def problem(response: TestResponse, status: int) -> dict[str, Any]:
    assert response.status_code == status
    assert response.content_type == "application/problem+json"
    body: dict[str, Any] = response.get_json(force=True)
    assert body["detail"]
    return body
