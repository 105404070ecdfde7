"""A profile declared in a YAML file: errors name the line."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from streamstate.errors import Misconfigured
from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import BadDeclaration, MeasureWords, require, require_known
from streamstate.profile.rules.rule import RuleWords

T = TypeVar("T", bound=msgspec.Struct)

Place = tuple[tuple[str, ...], int]
"""The path of a member, and its line."""


class _Loader(yaml.SafeLoader):
    """Errors name the line of a text that looks like a number or date and is none, or that has no UTF-8."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if isinstance(node, yaml.ScalarNode):
                node.value.encode()
            return super().construct_object(node, deep)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


def read(path: Path) -> Declaration:
    """The declaration in the file `path`. Raises `Misconfigured` with the line of the first fault."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no UTF-8"
        msg = f"{path}: {reason}; name the YAML file of a profile"
        raise Misconfigured(msg) from error
    try:
        return parse(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        msg = f"{path}:{line}: this is no YAML: {error.problem}"
        raise Misconfigured(msg) from error
    except yaml.reader.ReaderError as error:
        msg = f"{path}:{text.count(chr(10), 0, error.position) + 1}: this is no YAML: {error.reason}"
        raise Misconfigured(msg) from error
    except RecursionError as error:
        msg = f"{path}:1: the members are nested too deeply, or within themselves"
        raise Misconfigured(msg) from error
    except BadDeclaration as error:
        raise located(error, path, text) from error


def located(error: BadDeclaration, path: Path, text: str) -> Misconfigured:
    """The error with the line of its place in `text`, the content of the file `path`."""
    places = dict(_lines(text))
    line = next((places[error.path[:n]] for n in range(len(error.path), -1, -1) if error.path[:n] in places), 1)
    return Misconfigured(f"{path}:{line}: {error.reason}")


def parse(text: str) -> Declaration:
    """The declaration in a YAML text. Raises `BadDeclaration`, and PyYAML's errors."""
    # Of a member named twice, PyYAML would keep the last.
    for place, times in Counter(place for place, _ in _lines(text)).items():
        require(times == 1, f"{''.join(place[-1:])} is there twice", *place)
    loaded = yaml.load(text, _Loader)  # noqa: S506, a safe loader
    require(isinstance(loaded, dict), "a profile is a map: name, topic, key, path, fields, measures")
    measures = loaded.get("measures")
    if isinstance(measures, dict):
        for name, words in measures.items():
            _convert(words, MeasureWords, "measures", str(name))
    rules = loaded.get("rules")
    if isinstance(rules, dict):
        for name, words in rules.items():
            _convert(words, RuleWords, "rules", str(name))
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
        # YAML reads yes, no, on and off as booleans.
        reason += "; put it into quotes" if reason.endswith("got `bool`") else ""
        raise BadDeclaration(f"{where}{reason[:1].lower()}{reason[1:]}", *path, *inner) from error


def _lines(text: str) -> Iterator[Place]:
    """The members of a YAML text, with their lines."""
    if node := yaml.compose(text, yaml.SafeLoader):
        yield from _members(node, ())


def _members(node: yaml.Node, path: tuple[str, ...]) -> Iterator[Place]:
    yield path, node.start_mark.line + 1
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        inner = (*path, str(key.value))
        yield inner, key.start_mark.line + 1
        yield from (place for place in _members(value, inner) if place[0] != inner)
    for index, value in enumerate(node.value) if isinstance(node, yaml.SequenceNode) else ():
        yield from _members(value, (*path, str(index)))
