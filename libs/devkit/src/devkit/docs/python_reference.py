"""`docs/python-reference.md`, made from the source: what authors of services, and of clients, import."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeGuard

PATH = Path("docs/python-reference.md")
STABILITY = Path("docs/stability.md")
_HEAD = """# Python

The [stable](stability.md) modules, as their docstrings describe them. [Add a service](add-a-service.md) and
[the client](client.md) show their use.
"""
_ROW = re.compile(r"^\| Python contract of a service \| in `streamstate`: (.*?); the", re.MULTILINE)
_Described = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def stable() -> list[str]:
    """The names of the stable modules, from the page about stability."""
    found = _ROW.search(STABILITY.read_text())
    assert found, f"{STABILITY} has no row of the Python contract"
    return [*(f"streamstate.{name.strip('`')}" for name in found[1].split(", ")), "streamstate_client"]


def text() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(page for name in stable() for page in _pages(import_module(name)))])


def _pages(module: ModuleType) -> Iterator[str]:
    """The section of a module; of a package that exports nothing, also those of its modules."""
    described = [node for node in _exported(module) if _is_public(node)]
    entries = "".join(f"\n### {node.name}\n\n```python\n{_stub(node)}\n```\n" for node in described)
    yield f"## {module.__name__}\n\n{inspect.getdoc(module)}\n{entries}"
    if not described:
        for found in iter_modules(module.__path__):
            yield from _pages(import_module(f"{module.__name__}.{found.name}"))


def _exported(module: ModuleType) -> list[ast.stmt]:
    """The statements that define a module's names, or the names in the `__all__` of a package."""
    names: list[str] | None = getattr(module, "__all__", None)
    exported = [module] if names is None else [getattr(module, name) for name in names]
    coded = (each for each in exported if inspect.ismodule(each) or inspect.isclass(each) or inspect.isfunction(each))
    return [node for each in coded for node in ast.parse(inspect.getsource(each)).body]


def _is_public(node: ast.stmt) -> TypeGuard[_Described]:
    """Whether a statement defines a documented class or function; settings have a page of their own."""
    if not isinstance(node, _Described) or node.name.startswith("_") or not ast.get_docstring(node):
        return False
    return not any("Settings" in ast.unparse(base) for base in getattr(node, "bases", ()))


def _stub(node: _Described) -> str:
    """The signature and the docstring; of a class also its fields and its documented methods."""
    if not isinstance(node, ast.ClassDef):
        node.body = node.body[:1]
    else:
        node.body = [node.body[0], *(each for each in node.body[1:] if _is_field(each) or _is_public(each))]
        for method in node.body:
            if isinstance(method, _Described):
                method.body = method.body[:1]
    return ast.unparse(node)


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_")
