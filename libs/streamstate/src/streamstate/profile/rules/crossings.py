"""The kept crossings of rules: timelines by offset, their expiry and deletion, and a view over all partitions."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streamstate.app import Effect, Emit, FoldContext, Record
from streamstate.errors import BadParameter
from streamstate.profile.answer_type import NUMBER_KEYS
from streamstate.profile.declaration import Declaration
from streamstate.profile.rules.rule import Rule
from streamstate.state.operations import Between, ExpireBefore, Insert, Operation, Read, Remove
from streamstate.state.store import ENTRY_PATTERN, offsets_of, offsets_text
from streamstate.view import EXPLORE, PartitionState, Steps, View, in_steps

CROSSINGS = "crossings"
"""The family of the timelines, one of each rule. An entry has the offset of its cause in place of a time."""

KEPT = 1_000_000
"""A partition keeps the crossings of so many records."""

RULES = "/v1/rules/"
"""The beginning of the paths of rules, before the names of profile and rule."""

MOST = 1_000
"""The most crossings of an answer."""

MOST_ID_BYTES = 64 * 1024
"""An answer ends with the crossing whose id makes the ids as long: an id names all partitions with crossings."""

END = "end"
"""Behind the last crossing."""


def rules_topic(profile: str) -> str:
    """The derived topic of the rules of the profile of this name."""
    return f"{profile}-rules"


class Crossing(msgspec.Struct):
    """A value of a key has crossed the line of a rule, at the moment `at` (milliseconds since 1970)."""

    rule: str
    key: int | str
    value: int | float
    at: int


_OF_TOPIC = re.compile("; ?id=([A-Za-z0-9+/_-]{1,64})")
"""The end of a position: Kafka's id of the topic. A position without it may be of any topic of this name."""


class NextCrossings(msgspec.Struct, frozen=True):
    """The parameters of a request for crossings."""

    after: Annotated[
        str,
        Meta(
            pattern=f"^({END}|{ENTRY_PATTERN}(, ?{ENTRY_PATTERN})*({_OF_TOPIC.pattern})?)?$",
            description="`id` of a crossing, or `end` of an answer: only crossings behind it; `end`: none",
        ),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST, description="most crossings of an answer")] = 100


class KeptCrossing(Crossing):
    """A crossing, and the position of a reader behind it: the next offsets of the partitions with crossings."""

    id: str


class KeptCrossings(msgspec.Struct):
    """Crossings in the order of each partition, and the position behind them."""

    crossings: list[KeptCrossing]
    end: str


def kept(sent: Sequence[tuple[Rule, Emit]]) -> Iterator[Operation]:
    """The operations that keep the crossings of `sent` records."""
    entries: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for rule, emit in sent:
        entries[rule.name][f"{emit.cause.offset} {emit.value.decode()}"] = emit.cause.offset
    yield from (Insert(CROSSINGS, rule, of_rule) for rule, of_rule in entries.items())


def expired(records: Sequence[Record[Any, Any]], _context: FoldContext) -> Iterable[Effect]:
    """`Fold.shared` of rules: the deletion of crossings of earlier records than the last `KEPT`."""
    if records and records[-1].offset > KEPT:
        yield ExpireBefore(CROSSINGS, records[-1].offset - KEPT)


class CrossingRemoval:
    """`UserState.rewrite` of the kept crossings, and its `reads`."""

    def __init__(self, declared: Declaration) -> None:
        self._rules = [rule.name for rule in declared.ruled]
        self.reads: Sequence[Read] = [_between(rule) for rule in self._rules]

    def __call__(self, keys: Collection[Any], values: Sequence[Any]) -> Iterable[Operation]:
        named = {plain(key) for key in keys}
        for rule, entries in zip(self._rules, values, strict=True):
            yield from (Remove(CROSSINGS, rule, text) for text, _ in entries if _crossing(text).key in named)


class CrossingsOf:
    """`View.reads` and `View.answer` of the kept crossings of a rule."""

    def __init__(self, topic: str, rule: str) -> None:
        self._topic = topic
        self._rule = rule

    def reads(self, _query: NextCrossings) -> Sequence[Read]:
        """None: the reads differ between partitions."""
        return ()

    def answer(self, partitions: Sequence[PartitionState], query: NextCrossings) -> msgspec.Struct:
        """The answer, or the further reads to it. Raises `BadParameter`."""
        return in_steps(self._end(partitions) if query.after == END else self._following(partitions, query))

    def _end(self, partitions: Sequence[PartitionState]) -> Steps:
        values = yield {p: [_between(self._rule, n=1, descending=True)] for p in range(len(partitions))}
        ends = {partition: entries[0][1] + 1 for partition, [entries] in values.items() if entries}
        return KeptCrossings([], self._position(ends, partitions))

    def _following(self, partitions: Sequence[PartitionState], query: NextCrossings) -> Steps:
        at = self._begin(query.after, partitions)
        values = yield {p: [_between(self._rule, at.get(p, 0), n=query.limit)] for p in range(len(partitions))}
        found = [(partition, text, offset) for partition, [entries] in values.items() for text, offset in entries]
        crossings, id_bytes = [], 0
        for partition, text, offset in found[: query.limit]:
            at[partition] = offset + 1
            crossing = msgspec.structs.asdict(_crossing(text))
            crossings.append(KeptCrossing(**crossing, id=self._position(at, partitions)))
            id_bytes += len(crossings[-1].id)
            if id_bytes >= MOST_ID_BYTES:
                break
        return KeptCrossings(crossings, self._position(at, partitions))

    def _begin(self, after: str, partitions: Sequence[PartitionState]) -> dict[int, int]:
        """The offsets of a position; none, so that all crossings follow, of a topic that was created anew since."""
        given, of_topic = offsets_of(after), _OF_TOPIC.search(after)
        begin = "begin anew without after"
        if any(topic != self._topic or not 0 <= p < len(partitions) for topic, p in given):
            msg = f"after: this is no position in {self._topic}; {begin}"
            raise BadParameter(msg)
        if of_topic and of_topic[1] != partitions[0].topic_id:
            return {}
        for (topic, p), offset in given.items():
            if not of_topic and offset > partitions[p].position:
                msg = f"after: {topic}:{p} has no offset {offset} yet, or was created anew since; {begin}"
                raise BadParameter(msg)
        return {partition: offset for (_, partition), offset in given.items()}

    def _position(self, at: dict[int, int], partitions: Sequence[PartitionState]) -> str:
        return _position(self._topic, at, partitions[0].topic_id)


def _position(topic: str, at: Mapping[int, int], topic_id: str) -> str:
    text = offsets_text({(topic, partition): offset for partition, offset in sorted(at.items())})
    return f"{text}; id={topic_id}" if text and topic_id else text


def crossing_views(declared: Declaration) -> Iterable[View[Any]]:
    key = 42 if declared.key_type in NUMBER_KEYS else "anna"
    for rule in declared.ruled:
        of, position = (
            CrossingsOf(declared.keyed_topic, rule.name),
            _position(declared.keyed_topic, {0: 18}, "aVZxYzEw"),
        )
        example = KeptCrossings([KeptCrossing(rule.name, key, 51, 1_795_680_000_000, position)], position)
        yield View(
            f"{declared.name}-rule-{rule.name}",
            f"{RULES}{declared.name}/{rule.name}",
            f"The last crossings of the rule {rule.name}",
            declared.keyed_topic,
            None,
            of.reads,
            of.answer,
            example,
            NextCrossings,
            scope=EXPLORE,
            positioned=True,
        )


def plain(key: Any) -> int | str:
    """A key in a crossing."""
    return key if isinstance(key, int | str) else str(key)


def _between(rule: str, start: int = 0, **limits: Any) -> Between:
    return Between(f"{CROSSINGS}:{rule}", start, **limits)


def _crossing(text: str) -> Crossing:
    return msgspec.json.decode(text.partition(" ")[2], type=Crossing)
