"""What is put together: processes in `bootstrap` alone, nothing by an import, and services that fit each other."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from devkit.registry import SERVICES
from services.recommendations.answers import entries as recommended
from streamstate.web import partition_map
from streamstate.web.api import create
from streamstate.web.server.openapi import MANY
from tests.laws.test_app_laws import APPS

FILES = [path for folder in ("libs", "services") for path in sorted(Path(folder).rglob("*.py"))]
SERVERS = re.compile(r"(?<!class )\b(RedisStore|RedisReader|Topics)\(")
LOADING = re.compile(r"\b(load|configure|made)\(")


def test_stores_and_topics_are_made_in_one_module() -> None:
    assert [path.name for path in FILES if SERVERS.search(path.read_text())] == ["bootstrap.py"]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_an_import_loads_no_settings(path: Path) -> None:
    imported = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr)
    ]
    assert [text for node in imported if LOADING.search(text := ast.unparse(node))] == []


def test_no_two_services_answer_the_same_view_or_path() -> None:
    """The gateway finds the service of a request by either; only `/v1/many` asks for views of several services."""
    apis = [create(f"services.{name}") for name in SERVICES]
    rules = [rule for api in apis for rule in api.flask.url_map.iter_rules() if is_shared(rule.rule)]
    views = Counter(rule.endpoint for rule in rules)
    paths = Counter(re.sub("<.*?>", "<>", rule.rule) for rule in rules)
    assert {view.name for name in SERVICES for view in APPS[name].views} <= set(views)
    assert [name for counts in (views, paths) for name, count in counts.items() if count > 1] == []


def test_what_services_declare_for_the_gateway_fits_together() -> None:
    """Parts share no member but the key and warnings, and each id that gets a name is there, and of a view by key."""
    declared = [*recommended("plays"), *(entry for name in SERVICES for entry in partition_map.entries(APPS[name]))]
    by_key = {entry.name for entry in declared if not entry.anywhere}
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for flask in (create(f"services.{name}").flask for name in SERVICES):
        spec: Any = flask.document()
        paths |= spec["paths"]
        schemas |= spec["components"]["schemas"]
    members: Counter[str] = Counter()
    for entry in declared:
        operation = paths[entry.path.replace("<key>", "{key}")]["get"]
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        if entry.part:
            members.update(list(schemas[answer["$ref"].rpartition("/")[2]]["properties"]))
        for place, view in entry.names.views.items() if entry.names else ():
            assert view in by_key
            *lists, member = place.split(".")
            shape = schemas[answer["$ref"].rpartition("/")[2]]
            for each in lists:
                shape = schemas[shape["properties"][each]["items"]["$ref"].rpartition("/")[2]]
            assert member in shape["properties"]
    assert {name for name, count in members.items() if count > 1} <= {"userId", "warnings"}
    assert [entry.name for entry in declared if entry.part and entry.part.required] == ["metrics"]


def is_shared(path: str) -> bool:
    return path.startswith("/v1/") and path != MANY
