"""A profile declared in a YAML file: errors name the line."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from streamstate.errors import Misconfigured
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import FieldWords
from streamstate.profile.measure import MOST_LISTED, BadDeclaration, MeasureWords, require, require_known
from streamstate.profile.rules.rule import RuleWords
from streamstate.texts import NOUNS

T = TypeVar("T", bound=msgspec.Struct)

_INNER: Mapping[str, type[msgspec.Struct]] = {"measures": MeasureWords, "rules": RuleWords, "fields": FieldWords}
"""The words within a member, by name."""

_MEASURE = "{count: all}"
_EXAMPLES = {
    "name": "habits",
    "topic": "listening-events",
    "key": "long",
    "path": "/v1/users/<key>/habits",
    "measures": f"{{plays: {_MEASURE}}}",
    "fields": "{artistId: int, device: str}",
    "type": "int",
    "member": "user.device",
    "when": "{plays: {gt: 50}}",
    "where": "{device: {eq: phone}}",
    "over": "7d, or a list of windows such as over: [7d, ever]",
    "of": "artistId",
    "top": "10, of: artistId",
    "recent": "10, of: artistId",
}
"""Values of members, for errors."""

_MISSING = re.compile(r"Object missing required field `(\w+)`")
_EXPECTED = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_KEY = "`key` in "
"""In an error of msgspec about the name of a member."""
_NAMES = "each name is a text; put numbers, dates, null, yes, no, on and off into quotes"
_ADVICE = {
    "'\\t'": "; indent by spaces",
    "an alias": "; write its members out",
    "mapping values are not allowed": "; write a colon and a space behind each name, such as plays: {count: all}",
}
"""What to do about problems of YAML."""

MOST_NAMED = 500
"""The most fields, measures or rules of a profile."""

Place = tuple[tuple[str, ...], int, yaml.Node]
"""The path of a member, its line, and its value."""

_TAG = "tag:yaml.org,2002:"
_PLAIN: Mapping[str, re.Pattern[str]] = {
    f"{_TAG}int": re.compile(r"[-+]?(0|[1-9][0-9]*)"),
    f"{_TAG}float": re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.(inf|nan)", re.IGNORECASE),
    f"{_TAG}bool": re.compile(r"true|false", re.IGNORECASE),
    f"{_TAG}timestamp": re.compile(r"(?!)"),
}
"""The values that all readers of YAML read alike, by type: YAML 1.1 reads 010 as 8, 12:30 as 750, and no as false."""
_SPLIT = re.compile(r"decimal\([1-9]")
"""A type with a comma, which ends a value within braces."""


class _Loader(yaml.SafeLoader):
    """Errors name the line of an alias, and of a text that looks like a number or date and is none, or has no UTF-8."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # Aliases within aliases stand for any number of members.
        if self.check_event(yaml.AliasEvent):
            alias: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "an alias is not read", alias.start_mark)
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if isinstance(node, yaml.ScalarNode):
                node.value.encode()
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError) as error:
            # Of a text with the tag of a truth value or time, PyYAML raises the last two.
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


def read(given: str | Path) -> Declaration:
    """The declaration in a file, or in a text that begins with a brace.

    Raises `Misconfigured` with the line of the first fault.
    """
    inline = str(given).startswith("{")
    path = Path("the profile" if inline else given)
    try:
        text = str(given) if inline else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no UTF-8"
        msg = f"{path}: {reason}; name the YAML file of a profile"
        raise Misconfigured(msg) from error
    try:
        return parse(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        advice = next((advice for problem, advice in _ADVICE.items() if problem in str(error.problem)), "")
        msg = f"{path}:{line}: this is no YAML: {error.problem}{advice}"
        raise Misconfigured(msg) from error
    except yaml.reader.ReaderError as error:
        msg = f"{path}:{text.count(chr(10), 0, error.position) + 1}: this is no YAML: {error.reason}"
        raise Misconfigured(msg) from error
    except RecursionError as error:
        msg = f"{path}:1: the members are nested too deeply"
        raise Misconfigured(msg) from error
    except BadDeclaration as error:
        raise located(error, path, text) from error


def located(error: BadDeclaration, path: Path, text: str) -> Misconfigured:
    """The error with the line of its place in `text`, the content of the file `path`."""
    places = {place: line for place, line, _ in _lines(text)}
    line = next((places[error.path[:n]] for n in range(len(error.path), -1, -1) if error.path[:n] in places), 1)
    return Misconfigured(f"{path}:{line}: {error.reason}")


def parse(text: str) -> Declaration:
    """The declaration in a YAML text. Raises `BadDeclaration`, and PyYAML's errors."""
    # Of a member named twice, PyYAML would keep the last.
    places = [*_lines(text)]
    for place, times in Counter(place for place, *_ in places).items():
        require(times == 1, f"{''.join(place[-1:])} is there twice", *place)
    loaded = yaml.load(text, _Loader)  # noqa: S506, a safe loader
    for place, _, value in places:
        if isinstance(value, yaml.ScalarNode):
            _require_plain(value, *place)
    require(isinstance(loaded, dict), "a profile is a map: name, topic, key, path, fields, measures")
    for member, kind in _INNER.items():
        named = loaded.get(member)
        named = named if isinstance(named, dict) else {}
        require(
            len(named) <= MOST_NAMED, f"a profile has at most {MOST_NAMED} {member}; declare a second profile", member
        )
        for name, words in named.items():
            split = kind is FieldWords and _SPLIT.fullmatch(str(words))
            require(not split, f'put the type into quotes: {name}: "{words}, round)"', member, str(name))
            if kind is not FieldWords or isinstance(words, dict):
                _convert(words, kind, member, str(name))
            if kind is MeasureWords:
                _require_positive(words, member, str(name))
    declared = _convert(loaded, Declaration)
    declared.require_valid()
    return declared


def _require_plain(node: yaml.ScalarNode, *path: str) -> None:
    """Raise `BadDeclaration` for a number, truth value or time that only YAML 1.1 reads as such."""
    pattern = _PLAIN.get(node.tag)
    if pattern and not pattern.fullmatch(node.value):
        value = yaml.safe_load(node.value)
        number = isinstance(value, int | float)
        said = str(value).lower() if number else "a time"
        write = said if number else "milliseconds since 1970"
        require(False, f"YAML reads {node.value} as {said}; write {write}, or put it into quotes", *path)


def _require_positive(words: Mapping[str, Any], *path: str) -> None:
    """Raise `BadDeclaration` for `top: 0`, which is not the absence of a top."""
    for kind in ("top", "recent"):
        require(words.get(kind) != 0, f"{kind} is a number from 1 to {MOST_LISTED}", *path, kind)


def _convert(content: Any, kind: type[T], *path: str) -> T:
    """`content` as `kind`; raises `BadDeclaration` with the nearest name for an unknown member."""
    for name in content if isinstance(content, dict) else ():
        require_known(str(name), kind.__struct_encode_fields__, "member", *path, str(name))
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).replace(_KEY, "").partition(" - at `$")
        inner = [part for part in place.rstrip("`").replace("[...]", ".").split(".") if part]
        said = _NAMES if _KEY in str(error) else _plain(reason, content, [*path, *inner])
        raise BadDeclaration(said, *path, *inner) from error


def _plain(reason: str, content: Any, path: Sequence[str]) -> str:
    """A reason of msgspec in the words of YAML, with an example; `path` is the place of the fault."""
    if missing := _MISSING.search(reason):
        example = _EXAMPLES.get(missing[1], "")
        added = f"{missing[1]}: {example}" if example else missing[1]
        return f"there is no {missing[1]}; add {'the line ' * (not path)}{added}"
    if not (found := _EXPECTED.fullmatch(reason)):
        return f"{path[0]}: {reason[:1].lower()}{reason[1:]}" if path else reason
    expected = [NOUNS.get(kind, kind) for kind in found[1].split(" | ") if kind != "null"]
    member = path[-1] if path else ""
    given = content.get(member) if isinstance(content, dict) else content
    name, brace, rest = member.partition(" {")
    if brace:
        return f"there is no colon behind {name}; write {name}: {{{rest}: {given}"
    example = f"{member}: {_EXAMPLES[member]}" if member in _EXAMPLES else ""
    if path[:1] == ["measures"] and len(path) == 2:
        example = f"{member}: {_MEASURE}"
    if member in ("top", "recent") and isinstance(given, str):
        example = f"{member}: 10, of: {given}"
    said = f"{member}: expected {' or '.join(expected)}, found {NOUNS.get(found[2], found[2])}"
    # YAML reads yes, no, on and off as booleans.
    advice = "put it into quotes" if "str" in found[1] and found[2] in ("bool", "int", "float") else ""
    advice = f"write {example}" if example else advice
    return f"{said}; {advice}" if advice else said


def _lines(text: str) -> Iterator[Place]:
    """The members of a YAML text, with their lines."""
    if node := yaml.compose(text, _Loader):
        yield from _members(node, ())


def _members(node: yaml.Node, path: tuple[str, ...]) -> Iterator[Place]:
    yield path, node.start_mark.line + 1, node
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        inner = (*path, str(key.value))
        yield inner, key.start_mark.line + 1, value
        yield from (place for place in _members(value, inner) if place[0] != inner)
    for index, value in enumerate(node.value) if isinstance(node, yaml.SequenceNode) else ():
        yield from _members(value, (*path, str(index)))
