"""The operators' rules: items and categories that lists leave out, from a small compacted topic."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from services.events import KINDS
from streamstate.app import Fold, FoldContext, Record, Source
from streamstate.errors import BadRecord
from streamstate.formats.typed import json_decoder
from streamstate.keys import TEXT
from streamstate.state.operations import Delete, Operation, Put, Read, Value

RECOMMENDATION_RULES = "recommendation-rules"
RULES = "rules"
"""The state key: all rules of the partition in one JSON object, by the keys of their records."""

MOST_RULES = 10_000
"""The most rules of a partition."""

CATEGORY = "[a-z0-9-]{1,40}"
ID = "(?:0|[1-9][0-9]{0,18})"
"""The id of an item, as a part of a pattern."""

_KEY = re.compile(rf"(?:{'|'.join(KINDS)}):{ID}|category:{CATEGORY}")


class ItemRule(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """A record of the topic: the rule for an item or a category, and the categories of an item."""

    rule: Literal["deny", "allow"] | None = None
    categories: Annotated[tuple[Annotated[str, Meta(pattern=f"^{CATEGORY}$")], ...], Meta(max_length=20)] = ()


_decode = json_decoder(ItemRule)
Rules = dict[str, ItemRule]
_stored = msgspec.json.Decoder(Rules)


def decode(key: str, value: bytes | None) -> ItemRule | None:
    """The rule of a record, None for a removed rule. Raises `BadRecord` or `msgspec.ValidationError`."""
    if not _KEY.fullmatch(key):
        msg = f"the key must be such as tracks:42 or category:christmas (a category is {CATEGORY})"
        raise BadRecord(msg)
    rule = None if value is None else _decode(value)
    if rule and rule.categories and key.startswith("category:"):
        msg = "a category has no categories; give the categories at each item"
        raise BadRecord(msg)
    return rule


def stored(text: str | None) -> Rules:
    """The rules in the state of a partition."""
    return {} if text is None else _stored.decode(text)


def reads(_records: Sequence[Record[str, ItemRule | None]]) -> Iterable[Read]:
    return (Value(RULES),)


def apply(records: Sequence[Record[str, ItemRule | None]], context: FoldContext) -> Iterable[Operation]:
    """Change the rules. Raises `BadRecord` for a rule beyond the limit."""
    rules = stored(context.values[Value(RULES)])
    for record in records:
        if record.value is None:
            rules.pop(record.key, None)
        else:
            rules[record.key] = record.value
        if len(rules) > MOST_RULES:
            msg = f"a partition has at most {MOST_RULES} rules; remove rules by records without a value"
            raise BadRecord(msg)
    yield Put(RULES, msgspec.json.encode(rules, order="sorted").decode()) if rules else Delete(RULES)


SOURCE = Source(RECOMMENDATION_RULES, TEXT, decode, requires_beginning=False, last_values=True)
FOLD = Fold((SOURCE,), apply, reads=reads)


class RuleSet:
    """All rules of a moment, for any thread."""

    def __init__(self, rules: Mapping[str, ItemRule]) -> None:
        self._members: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        self.denied: dict[str, set[int]] = {kind: set() for kind in KINDS}
        self._allowed: dict[str, set[int]] = {kind: set() for kind in KINDS}
        named = {"deny": self.denied, "allow": self._allowed}
        for key, rule in rules.items():
            kind, _, item = key.partition(":")
            if kind in KINDS:
                if rule.rule:
                    named[rule.rule][kind].add(int(item))
                for category in rule.categories:
                    self._members[kind, category].add(int(item))
        for (kind, category), members in self._members.items():
            if of_category := rules.get(f"category:{category}", ItemRule()).rule:
                named[of_category][kind] |= members

    def members(self, kind: str, categories: Iterable[str]) -> set[int]:
        """The items of the kind in any of the categories."""
        return {item for category in categories for item in self._members.get((kind, category), ())}

    def allowed(self, kind: str) -> Collection[int] | None:
        """The items of the kind that an item's or a category's rule allows; None where no rule allows an item."""
        return self._allowed[kind] or None
