"""The library's rooms: imports point one way, and a room stays small enough to be seen at a glance."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

LIBRARY = Path("libs/streamstate/src/streamstate")
MOST_FILES = 12

CONTRACT = {"errors", "keys", "state", "view", "app"}
PROCESS = {
    *CONTRACT,
    "archive",
    "bootstrap",
    "deployment",
    "erasure",
    "formats",
    "kafka",
    "processing",
    "releases",
    "settings",
}
ALLOWED: Mapping[str, set[str]] = {
    "errors": set(),
    "keys": {"errors"},
    "state": {"errors"},
    "view": {"keys", "state"},
    "app": {"errors", "keys", "state", "view"},
    "releases": {"errors", "state"},
    "archive": {"errors"},
    "formats": CONTRACT,
    "operators": CONTRACT,
    "functions": {*CONTRACT, "formats", "operators"},
    "profile": CONTRACT,
    "processing": {*CONTRACT, "operators"},
    "kafka": {*CONTRACT, "archive", "formats", "processing", "releases"},
    "erasure": {*CONTRACT, "kafka"},
    "deployment": {*CONTRACT, "formats", "kafka", "operators", "processing"},
    "settings": {"deployment", "errors", "formats"},
    "bootstrap": {*CONTRACT, "archive", "deployment", "erasure", "formats", "kafka", "releases", "settings"},
    "backup": {"deployment", "errors", "state"},
    "testing": {*CONTRACT, "processing"},
    "spark": PROCESS,
    "verify": {*PROCESS, "profile"},
    "web.access": {"deployment", "errors", "view"},
    "web.http": {"errors"},
    "web.client": {"deployment", "web.access", "web.http"},
    "web.server": {*CONTRACT, "deployment", "processing", "settings", "web.access", "web.http"},
    "web": {*PROCESS, "web.access", "web.client", "web.http", "web.server"},
    "answers": {*PROCESS, "backup", "spark", "web", "web.http"},
    "cli": {*PROCESS, "answers", "backup", "profile", "spark", "testing", "verify", "web", "web.access", "web.http"},
}
"""What each room, or module of the root, may import. Nothing imports what is not listed."""


def room(parts: tuple[str, ...]) -> str:
    """The room of a module with this path below the library."""
    if parts[0] == "web" and len(parts) > 2:
        return ".".join(parts[:2])
    return parts[0]


def imports(path: Path) -> Iterator[str]:
    """The rooms that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "streamstate":
            for name in node.names:
                parts = (*str(node.module).split(".")[1:], name.name)
                # An imported name is a module, or a member of the named module.
                is_module = LIBRARY.joinpath(*parts).with_suffix(".py").exists()
                yield room(parts if is_module or len(parts) == 1 else parts[:-1])


FILES = [path for path in LIBRARY.rglob("*.py") if path.parent != LIBRARY or path.stem != "__init__"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LIBRARY)))
def test_imports_point_one_way(path: Path) -> None:
    own = room(path.relative_to(LIBRARY).with_suffix("").parts)
    assert set(imports(path)) - {own} <= ALLOWED[own]


@pytest.mark.parametrize("path", sorted(Path("libs/strictasgi/src/strictasgi").glob("*.py")), ids=str)
def test_the_server_knows_nothing_of_the_library(path: Path) -> None:
    assert not re.search(r"(?:from|import) (?:streamstate|services)", path.read_text())


@pytest.mark.parametrize("path", sorted(Path("services/gateway").glob("*.py")), ids=str)
def test_the_gateway_knows_no_service(path: Path) -> None:
    assert set(re.findall(r"(?:from|import) services\.(\w+)", path.read_text())) <= {"gateway"}


def test_no_two_rooms_import_each_other() -> None:
    done: set[str] = set()
    while free := {name for name, allowed in ALLOWED.items() if allowed <= done} - done:
        done |= free
    assert done == set(ALLOWED)


def test_a_room_has_at_most_twelve_files() -> None:
    rooms = {path.parent for path in FILES}
    assert {str(folder): count for folder in rooms if (count := len(list(folder.glob("*.py")))) > MOST_FILES} == {}


def test_each_room_says_what_belongs_there() -> None:
    for folder in {path.parent for path in FILES}:
        assert len(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "") > 40
