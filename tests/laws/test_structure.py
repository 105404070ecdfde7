"""How the project is put together: rooms and their imports, one place of wiring, and the promises of a release."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark import cloudpickle

from devkit.docs.python_reference import stable
from devkit.registry import SERVICES, app
from services.recommendations.answers import entries as recommended
from streamstate.releases.contract import requirements
from streamstate.web import partition_map
from streamstate.web.api import create
from streamstate.web.server.openapi import MANY
from tests.findings import faults
from tests.laws.test_app_laws import APPS
from tests.released.documents import STATES, documents, promised, released
from tests.released.states import states

LIBRARY = Path("libs/streamstate/src/streamstate")
MOST_FILES = 12

CONTRACT = {"errors", "keys", "state", "texts", "view", "app"}
PROCESS = {
    *CONTRACT,
    "bootstrap",
    "deployment",
    "erasure",
    "formats",
    "history.archive",
    "kafka",
    "processing",
    "releases",
    "settings",
}
ALLOWED: Mapping[str, set[str]] = {
    "errors": set(),
    "keys": {"errors"},
    "state": {"errors"},
    "texts": set(),
    "view": {"errors", "keys", "state", "texts"},
    "app": {"errors", "keys", "state", "view"},
    "releases": {"errors", "state"},
    "history": set(),
    "history.archive": {"errors", "keys"},
    "formats": CONTRACT,
    "operators": CONTRACT,
    "functions": {*CONTRACT, "formats", "operators"},
    "profile": {*CONTRACT, "formats", "operators"},
    "processing": {*CONTRACT, "operators"},
    "kafka": {*CONTRACT, "formats", "history.archive", "processing", "releases"},
    "erasure": {*CONTRACT, "kafka", "operators"},
    "deployment": {*CONTRACT, "formats", "kafka", "operators", "processing"},
    "settings": {"deployment", "errors", "formats"},
    "bootstrap": PROCESS - {"bootstrap"},
    "history.backup": {"deployment", "errors", "state"},
    "testing": {*CONTRACT, "kafka", "processing"},
    "spark": PROCESS,
    "replay": {*CONTRACT, "erasure", "processing"},
    "verify": {*PROCESS, "replay"},
    "web.access": {"deployment", "errors", "view"},
    "web.http": {"errors", "state", "texts", "view"},
    "web.client": {"deployment", "web.access", "web.http"},
    "web.server": {*CONTRACT, "deployment", "processing", "settings", "web.access", "web.http"},
    "web": {*PROCESS, "web.access", "web.client", "web.http", "web.server"},
    "history.answers": {*PROCESS, "history.backup", "replay", "spark"},
    "cli": {
        *PROCESS,
        "history.answers",
        "history.backup",
        "profile",
        "replay",
        "spark",
        "testing",
        "verify",
        "web",
        "web.access",
        "web.http",
        "web.server",
    },
}
"""What each room, or module of the root, may import. Nothing imports what is not listed."""


def room(parts: tuple[str, ...]) -> str:
    """The room of a module with this path below the library."""
    nested = ".".join(parts[:2])
    return nested if nested in ALLOWED else parts[0]


def imports(path: Path) -> Iterator[str]:
    """The rooms that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "streamstate":
            for name in node.names:
                parts = (*str(node.module).split(".")[1:], name.name)
                # An imported name is a module, or a member of the named module.
                is_module = LIBRARY.joinpath(*parts).with_suffix(".py").exists()
                yield room(parts if is_module or len(parts) == 1 else parts[:-1])


SOURCES = [path for folder in ("libs", "services") for path in sorted(Path(folder).rglob("*.py"))]
FILES = [path for path in LIBRARY.rglob("*.py") if path.parent != LIBRARY or path.stem != "__init__"]


def test_imports_point_one_way() -> None:
    def upward(path: Path) -> set[str]:
        own = room(path.relative_to(LIBRARY).with_suffix("").parts)
        return {*imports(path)} - {own, *ALLOWED[own]}

    assert faults(FILES, upward) == {}


@pytest.mark.parametrize(
    ("folder", "others"),
    [("libs/strictasgi/src/strictasgi", r"streamstate|services"), ("services/gateway", r"services\.(?!gateway\b)\w+")],
)
def test_a_room_knows_nothing_of_others(folder: str, others: str) -> None:
    paths = [*Path(folder).glob("*.py")]
    assert paths
    assert faults(paths, lambda path: re.findall(rf"(?:from|import) (?:{others})", path.read_text())) == {}


OF_THE_PROJECT = {"archive", "gateway", "recommendations"}
"""Services that are parts of the project, and grow with the library."""


def test_services_are_written_with_public_names() -> None:
    def private(path: Path) -> set[str]:
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        imported = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        library = [node for node in imported if (node.module or "").partition(".")[0] == "streamstate"]
        called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        names = {f"{node.module}.{alias.name}" for node in library for alias in node.names}
        return names - public | called & {"Fold", "View"}

    public = {f"{name}.{member}" for name in stable() for member in members(import_module(name))}
    folders = [path for path in Path("services").iterdir() if path.is_dir() and path.name not in OF_THE_PROJECT]
    paths = [Path("services/events.py"), *(path for folder in folders for path in folder.glob("*.py"))]
    assert len(folders) >= len(set(SERVICES) - OF_THE_PROJECT) > 5
    assert faults([path for path in paths if path.stem != "recount"], private) == {}


def members(module: ModuleType) -> set[str]:
    """The names that `module` declares."""
    return set(getattr(module, "__all__", ())) or {name for name in vars(module) if not name.startswith("_")}


def test_no_two_rooms_import_each_other() -> None:
    done: set[str] = set()
    while free := {name for name, allowed in ALLOWED.items() if allowed <= done} - done:
        done |= free
    assert done == set(ALLOWED)


def test_a_room_has_at_most_twelve_files() -> None:
    rooms = {path.parent for path in SOURCES}
    assert {str(folder): count for folder in rooms if (count := len(list(folder.glob("*.py")))) > MOST_FILES} == {}


def test_each_room_says_what_belongs_there() -> None:
    for folder in {path.parent for path in SOURCES}:
        said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert len(said) > 40, f"say in a docstring of {folder}/__init__.py, in a sentence, what belongs there"


# What is put together: processes in `bootstrap` alone, nothing by an import, and services that fit each other.

SERVERS = re.compile(r"(?<!class )\b(RedisStore|RedisReader|Topics)\(")
LOADING = re.compile(r"\b(load|configure|made)\(")


def test_stores_and_topics_are_made_in_one_module() -> None:
    assert [path.name for path in SOURCES if SERVERS.search(path.read_text())] == ["bootstrap.py"]


def test_an_import_loads_no_settings() -> None:
    def loading(path: Path) -> list[str]:
        imported = ast.parse(path.read_text()).body
        texts = [ast.unparse(node) for node in imported if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr)]
        return [text for text in texts if LOADING.search(text)]

    assert faults(SOURCES, loading) == {}


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


# A release keeps the promises of the release before, and a changed state has another declaration.

ADVICE = "keep it; or say so in CHANGELOG.md under a new version, and run `python -m tests.released`"


@pytest.fixture(scope="module")
def current() -> dict[str, dict[str, object]]:
    return states()


WORKER = """
import json, sys
from pyspark import cloudpickle
from tests.released.states import state
print(json.dumps({name: state(app) for name, app in cloudpickle.load(sys.stdin.buffer).items()}))
"""


def test_folds_make_the_same_state_in_a_worker_of_spark(current: dict[str, dict[str, object]]) -> None:
    pickled = cloudpickle.dumps({service: replace(app(service), views=()) for service in SERVICES})  # type: ignore[no-untyped-call]
    worked = subprocess.run([sys.executable, "-c", WORKER], input=pickled, capture_output=True, check=False)
    assert worked.returncode == 0, worked.stderr.decode()
    assert json.loads(worked.stdout) == {service: current[service]["state"] for service in SERVICES}


STREAM = """
import importlib, sys
sys.modules |= dict.fromkeys(["flask", "gunicorn", "numba"])
for service in sys.argv[1:]:
    importlib.import_module(f"services.{service}.model")
"""


def test_the_image_of_a_stream_needs_no_package_of_the_api() -> None:
    argv = [sys.executable, "-c", STREAM, *SERVICES]
    assert subprocess.run(argv, capture_output=True, text=True, check=False).stderr == ""


def test_answers_keep_the_paths_parameters_and_members_of_the_release_before() -> None:
    now = promised()
    broken = [
        f"{path} {kept - now.get(path, set())}" for path, kept in released().items() if kept - now.get(path, set())
    ]
    assert not broken, f"{broken[:5]} of the release before: {ADVICE}"


def test_no_path_requires_a_parameter_of_a_query_or_header() -> None:
    assert {line for document in documents().values() for line in requirements(document)} == set()


@pytest.mark.parametrize("service", SERVICES)
def test_another_state_of_the_same_records_has_another_version(service: str, current: dict[str, object]) -> None:
    before = json.loads(STATES.read_text()).get(service)
    assert before == current[service], (
        f"{service} makes another state of the same records: raise Fold.version if its folds are the same, and run "
        "`python -m tests.released`"
        if before and before["folds"] == current[service]["folds"]  # type: ignore[index]
        else f"the folds of {service} are new or changed, and a changed one refuses the state of a release before: run "
        "`python -m tests.released`"
    )
