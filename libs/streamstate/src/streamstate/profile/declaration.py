"""A profile as declared: its words, checked and resolved. Pure."""

import math
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from streamstate.keys import CODECS, MURMUR2, PARTITIONERS
from streamstate.profile.conditions import Condition
from streamstate.profile.fields import TIMESTAMP, FieldType, FieldWords, field_type, member_tree
from streamstate.profile.measure import (
    SLOT_MS,
    BadDeclaration,
    Measure,
    MeasureWords,
    TrailingWindow,
    duration_ms,
    longest_first,
    require,
    require_known,
    resolve,
    resolve_where,
)
from streamstate.profile.numbers import is_number, is_ranked
from streamstate.profile.rules.rule import Rule, RuleWords, resolve_rule
from streamstate.state.operations import BEST, DAY_MS

_SERVICE = re.compile(r"[a-z][a-z0-9-]{0,39}")
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_IN_VALUE = "value."
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+|/<key>)+")


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """A profile as written.

    name: the deployment's name, unless its release has another. topic: the events' topic. key: the type of its keys, or
        `value.` and a member of the events, [as a key](profile.md#10-the-key-from-the-value).
    path: where the gateway answers, with `<key>`; without it, over all keys.
    measures: the members of the answer. fields: the events' members in measures, with their types, and their paths
        where they differ; null counts as absent.
    rules: records when a measure of a key [crosses a line](rules.md).
    part: whether the answer is a part of `/v1/users/{id}`, by keys of the type `long`. summary: a line for OpenAPI.
    users: whether keys are users, for export and deletion; by default where the path begins with `/v1/users/`.
    history: how far back `at` may lie; by default the longest window, up to 7 days.
    where: the profile's events; other records are not counted, and may have other members.
    compact: whether rankings take less memory, and more CPU time: not over all keys, not with `total`, tops up to 64.
        By default wherever possible for all rankings.
    partitioner: how the topic's producers place keys: murmur2 (Java), by default, crc32 (librdkafka's default: Python,
        C, Go, .NET) or fnv1a (sarama).
    """

    name: str
    topic: str
    key: str
    path: str
    measures: dict[str, MeasureWords]
    fields: dict[str, str | FieldWords] = {}
    rules: dict[str, RuleWords] = {}
    part: bool = False
    summary: str = ""
    users: bool | None = None
    history: str = ""
    where: dict[str, Any] = {}
    compact: bool | None = None
    partitioner: str = MURMUR2

    @property
    def key_field(self) -> FieldType | None:
        """The field of the key, None where the topic has the keys."""
        if not self.key.startswith(_IN_VALUE):
            return None
        path = self.key.removeprefix(_IN_VALUE)
        return next((of for of in self.types.values() if of.path == path and of.name != TIMESTAMP), None)

    @cached_property
    def key_type(self) -> str:
        """The type of the profile's keys."""
        field = self.key_field
        return self.key if field is None else {"int": "long", "str": "text"}[field.kind]

    @cached_property
    def keyed_topic(self) -> str:
        """The topic with the profile's keys. Records with another member or type of the key are in another topic."""
        field = self.key_field
        if field is None:
            return self.topic
        return f"{self.topic}-by-{field.path}-{field.kind}{'-text' if field.written else ''}"

    @cached_property
    def types(self) -> Mapping[str, FieldType]:
        """The types of the fields, with the timestamp's. Raises `BadDeclaration`."""
        types = {}
        for name, text in self.fields.items():
            try:
                types[name] = field_type(name, text)
            except ValueError as error:
                raise BadDeclaration(str(error), "fields", name) from error
        try:
            member_tree(types.values())
        except ValueError as error:
            raise BadDeclaration(str(error), "fields") from error
        return {TIMESTAMP: FieldType("int", 0, TIMESTAMP, ""), **types}

    @cached_property
    def resolved(self) -> tuple[Measure, ...]:
        """The measures. Raises `BadDeclaration`."""
        return tuple(resolve(name, words, self.types) for name, words in self.measures.items())

    @cached_property
    def selection(self) -> Condition | None:
        """The condition of the profile's events, None where all records are events. Raises `BadDeclaration`."""
        types = {name: of for name, of in self.types.items() if name != TIMESTAMP}
        return resolve_where(self.where, types, ()) if self.where else None

    @cached_property
    def ruled(self) -> tuple[Rule, ...]:
        """The rules by name. Raises `BadDeclaration`."""
        measures = {measure.name: measure for measure in self.resolved}
        return tuple(resolve_rule(name, words, measures, self.types) for name, words in sorted(self.rules.items()))

    @cached_property
    def windows(self) -> tuple[TrailingWindow, ...]:
        """All windows of the measures, longest first."""
        return longest_first(window for measure in self.resolved for window in measure.windows)

    @cached_property
    def slot_ms(self) -> int:
        """The length of the slots of windows over all keys, in milliseconds."""
        periods = [measure.every_ms for measure in self.resolved if measure.windows]
        return math.gcd(*periods) if all(periods) and periods else SLOT_MS

    @cached_property
    def windowed_fields(self) -> tuple[str, ...]:
        """The fields that a history keeps of each event, by name: another order in the file is the same state."""
        return tuple(sorted({field for measure in self.resolved if measure.windows for field in measure.fields}))

    @cached_property
    def kept_ms(self) -> int:
        """How long a history keeps an event: until no window may be asked for that contains the event."""
        longest = self.windows[0].ms
        history = duration_ms(self.history, "history") if self.history else min(longest, 7 * DAY_MS)
        return longest + history

    @property
    def everywhere(self) -> bool:
        """Whether the measures are over all keys."""
        return "<key>" not in self.path

    @property
    def of_users(self) -> bool:
        """Whether the keys are users."""
        return not self.everywhere and (self.path.startswith("/v1/users/") if self.users is None else self.users)

    @cached_property
    def packed(self) -> bool:
        """Whether rankings are compact."""
        if self.compact is False or not any(each.ever and is_ranked(each) for each in self.resolved):
            return False
        try:
            self._require_compact()
        except BadDeclaration:
            return False
        return True

    @cached_property
    def state(self) -> str:
        """The canonical form of everything on which the state depends."""
        parts = {name: getattr(self, name) for name in ("topic", "key", "fields", "measures", "history", "everywhere")}
        parts |= {"compact": True} if self.packed else {}
        parts |= {"where": self.where} if self.where else {}
        parts |= {"rules": self.rules} if self.rules else {}
        return msgspec.json.encode(parts, order="deterministic").decode()

    @classmethod
    def of_state(cls, name: str, state: str) -> "Declaration":
        """A declaration called `name` with this `state`; other words are lost."""
        parts = msgspec.json.decode(state)
        path = "/all" if parts.pop("everywhere") else "/<key>"
        return msgspec.convert({"compact": False, **parts, "name": name, "path": path}, cls)

    def require_valid(self) -> None:
        """Raise `BadDeclaration` for the first fault."""
        name = "a name has small letters, digits and hyphens, up to 40, and begins with a letter"
        require(_SERVICE.fullmatch(self.name), name, "name")
        require(_TOPIC.fullmatch(self.topic), "a topic has letters, digits, dots, hyphens and _, up to 249", "topic")
        self._require_key()
        path = _PATH.fullmatch(self.path) and self.path.count("<key>") <= 1
        require(path, "a path is such as /v1/users/<key>/habits", "path")
        part = not self.part or (self.key_type == "long" and not self.everywhere)
        require(part, "a part of a user's profile has the key long, and <key> in its path", "part")
        require(not self.where or self.selection, "where has comparisons, such as {type: {eq: play}}", "where")
        require(self.measures, "declare a measure, such as plays: {count: all}", "measures")
        named: set[str] = set()
        for each in self.resolved:
            if self.everywhere:
                self._require_slots(each)
            require(self.everywhere or not each.every_ms, "every is for measures over all keys", "measures", each.name)
            if each.index:
                self._require_index(each, named)
        require(not (self.ruled and self.everywhere), "rules are for measures of a key: <key> in the path", "rules")
        if self.history:
            duration_ms(self.history, "history")
        if self.compact:
            self._require_compact()

    def _require_key(self) -> None:
        require_known(self.partitioner, PARTITIONERS, "partitioner", "partitioner")
        if not self.key.startswith(_IN_VALUE):
            kinds = "long for whole numbers of 8 bytes, int for those of 4, digits for those in digits, text for texts"
            known = f"there is no key {self.key}: write {kinds}; there are {', '.join(CODECS)}, and value.MEMBER"
            require(self.key in CODECS, known, "key")
            return
        path, field = self.key.removeprefix(_IN_VALUE), self.key_field
        example = f"declare its type, such as fields: {{userId: {{type: int, member: {path}}}}}"
        require(field, f"the member {path} is no field; {example}", "key")
        placed = f"the keys from the value are placed by {MURMUR2}, whatever the producers do; remove the partitioner"
        require(self.partitioner == MURMUR2, placed, "partitioner")
        is_key = field and field.kind in ("int", "str") and not field.unit
        require(is_key, f"the member {path} is no key; a key is an int, an int(text) or a str", "key")
        name = f"the topic {self.keyed_topic} has letters, digits, dots, hyphens and _, up to 249; take another member"
        require(_TOPIC.fullmatch(self.keyed_topic), name, "key")

    def _require_slots(self, each: Measure) -> None:
        """The windows over all keys keep numbers by slot, and no events."""
        place = "measures", each.name, "over"
        kept = not each.windows or is_number(each) or is_ranked(each)
        require(kept, f"over all keys, {each.kind} has no windows", *place)
        least = each.every_ms or SLOT_MS
        long = all(window.ms >= least for window in each.windows)
        require(long, f"over all keys, a window has at least {'one period' if each.every_ms else '5m'}", *place)

    def _require_index(self, each: Measure, named: set[str]) -> None:
        """The path without the key is of the index. Adds the names of its indexes to `named`."""
        place = "measures", each.name, "index"
        within = not self.everywhere and not self.path.endswith("/<key>")
        require(within, "with an index, the path goes on behind <key>, such as /v1/users/<key>/habits", *place)
        for name in each.index_names.values():
            require(name not in named, f"two indexes are called {name}; give a measure another name", *place)
            named.add(name)

    def _require_compact(self) -> None:
        require(not self.everywhere, "measures over all keys are not compact", "compact")
        for each in self.resolved:
            if each.ever and each.kind == "top":
                place = "measures", each.name
                require(not each.weight, "with compact, no top is by a total: totals may fall", *place, "total")
                require(each.n <= BEST, f"with compact, a top is a number from 1 to {BEST}", *place, "top")
