"""The OpenAPI documents of this release, and the files of the release before."""

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from devkit.registry import SERVICES
from streamstate.releases.contract import promises
from streamstate.web import api

ANSWERS = Path(__file__).with_name("answers.txt")
STATES = Path(__file__).with_name("states.json")
NOWHERE = {"STREAMSTATE_ACCESS": "off", "STREAMSTATE_KAFKA": "127.0.0.1:1", "STREAMSTATE_REDIS": "redis://127.0.0.1:1"}


def documents() -> Mapping[str, Any]:
    """The document of each service's API, by service. Nothing is started: no thread outlives the call."""
    with patch.dict(os.environ, NOWHERE):
        apps = {service: api.create(f"services.{service}") for service in SERVICES}
        return {service: json.loads(msgspec.json.encode(app.flask.document())) for service, app in apps.items()}


def promised() -> dict[str, set[str]]:
    """What this release promises, by service, method and path."""
    found = defaultdict[str, set[str]](set)
    for service, document in documents().items():
        for method, path, promise in (line.split(" ", 2) for line in promises(document)):
            found[f"{service}: {method} {path}"].add(promise)
    return found


def released() -> dict[str, set[str]]:
    """The same of the release before."""
    lines = (line.split(" | ") for line in ANSWERS.read_text().splitlines())
    return {path: set(promised) for path, *promised in lines}
