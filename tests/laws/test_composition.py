"""One composition point: what a process works with is made in `bootstrap`, and nothing is loaded by an import."""

import ast
import re
from pathlib import Path

import pytest

FILES = [path for folder in ("libs", "services") for path in sorted(Path(folder).rglob("*.py"))]
SERVERS = re.compile(r"(?<!class )\b(RedisStore|RedisReader|Topics)\(")
LOADING = re.compile(r"\b(load|configure|made)\(")
EXECUTED = (ast.Assign, ast.AnnAssign, ast.Expr)


def test_stores_and_topics_are_made_in_one_module() -> None:
    assert [path.name for path in FILES if SERVERS.search(path.read_text())] == ["bootstrap.py"]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_an_import_loads_no_settings(path: Path) -> None:
    imported = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr)
    ]
    assert [text for node in imported if LOADING.search(text := ast.unparse(node))] == []
