"""A profile declared in a YAML file: errors name the line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from streamstate.errors import Misconfigured
from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import BadDeclaration, Words, require, require_known

T = TypeVar("T", bound=msgspec.Struct)

Places = dict[tuple[str, ...], int]
"""The line of each member, by its path."""


def read(path: Path) -> Declaration:
    """The declaration in the file `path`. Raises `Misconfigured` with the line of the first fault."""
    try:
        text = path.read_text()
    except OSError as error:
        msg = f"{path}: {error.strerror}; name the YAML file of a profile"
        raise Misconfigured(msg) from error
    try:
        return parse(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        msg = f"{path}:{line}: this is no YAML: {error.problem}"
        raise Misconfigured(msg) from error
    except BadDeclaration as error:
        places = _places(text)
        line = next((places[error.path[:n]] for n in range(len(error.path), -1, -1) if error.path[:n] in places), 1)
        msg = f"{path}:{line}: {error.reason}"
        raise Misconfigured(msg) from error


def parse(text: str) -> Declaration:
    """The declaration in a YAML text. Raises `BadDeclaration`, and PyYAML's errors."""
    # Of a member named twice, PyYAML would keep the last.
    _places(text)
    loaded = yaml.safe_load(text)
    require(isinstance(loaded, dict), "a profile is a map: name, topic, key, path, fields, measures")
    measures = loaded.get("measures")
    if isinstance(measures, dict):
        for name, words in measures.items():
            _convert(words, Words, "measures", str(name))
    declared = _convert(loaded, Declaration)
    declared.require_valid()
    return declared


def _convert(content: Any, kind: type[T], *path: str) -> T:
    """`content` as `kind`; raises `BadDeclaration` with the nearest name for an unknown member."""
    for name in content if isinstance(content, dict) else ():
        require_known(str(name), kind.__struct_encode_fields__, "member", *path, str(name))
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        inner = [part for part in place.rstrip("`").replace("[...]", ".").split(".") if part]
        where = f"{inner[0]}: " if inner else ""
        raise BadDeclaration(f"{where}{reason[:1].lower()}{reason[1:]}", *path, *inner) from error


def _places(text: str) -> Places:
    node = yaml.compose(text, yaml.SafeLoader)
    return dict(_lines(node, ())) if node else {}


def _lines(node: yaml.Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise BadDeclaration(f"{name} is there twice", *path)
            seen.add(name)
            yield (*path, name), key.start_mark.line + 1
            yield from ((inner, line) for inner, line in _lines(value, (*path, name)) if inner != (*path, name))
