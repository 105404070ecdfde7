"""The output of the folds: dead letters and derived topics, each record at least once for each cause."""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from streamstate.app import App, Emit, Record, as_written
from streamstate.kafka.dlq.records import SHA256_HEADER, marked
from streamstate.kafka.dlq.topic import cause_of, is_derived, is_halting, is_receipt
from streamstate.keys import Marker
from streamstate.processing.decode import framed
from streamstate.processing.fold_batch import FoldResult
from streamstate.state.store import Origin
from streamstate.verify.difference import Difference

OPEN, GONE = -1, -2
"""In place of a hash: any content; any content, or no record, since Kafka may have deleted it."""

Publishes = Callable[["Place", int], bool]
"""Whether the release publishes the outputs of the record at an offset; another release may have published others."""

Place = tuple[str, int]
"""Topic id and partition of causes."""


@dataclass
class Caused:
    """The outputs of the records of one partition: topic and hash of the content, by offset and number of the cause.

    whole: whether a record of a derived topic that none of them caused is a fault.
    """

    whole: bool
    reached: int = 0
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    contents: "array[int]" = field(default_factory=lambda: array("q"))
    topics: list[str] = field(default_factory=list)

    def add(self, offset: int, topic: str, content: int) -> None:
        self.offsets.append(offset)
        self.contents.append(content)
        self.topics.append(topic)

    def forget(self, offset: int) -> None:
        """Forget the outputs of records from `offset` on: they are folded again."""
        begin = bisect_left(self.offsets, offset)
        del self.offsets[begin:], self.contents[begin:], self.topics[begin:]

    def find(self, offset: int, number: int) -> int | None:
        """The index of an output; None for an output that is not caused."""
        index = bisect_left(self.offsets, offset) + number
        return index if index < len(self.offsets) and self.offsets[index] == offset else None

    def common(self, other: "Caused") -> "Caused":
        """The outputs that another order of the same records causes as well, with open contents."""
        kept = Caused(whole=False, reached=self.reached)
        first = 0
        for index, offset in enumerate(self.offsets):
            first = index if not index or self.offsets[index - 1] != offset else first
            at = other.find(offset, index - first)
            if at is not None and other.topics[at] == self.topics[index]:
                kept.add(offset, self.topics[index], min(self.contents[index], OPEN))
        return kept


class Collector:
    """Collects the outputs of the commits of a replay, and the records that were dropped without ever being folded.

    horizons: by topic, the time (milliseconds) before which its records may be deleted. exact: whether the records of
    a partition alone determine their outputs. whole: as of `Caused`.
    """

    def __init__(
        self, app: App, origins: Mapping[str, Origin], horizons: Mapping[str, float], *, exact: bool, whole: bool
    ) -> None:
        self._app = app
        self._horizons = horizons
        self._exact = exact
        self._ids = {source.own_name: origins[source.topic].id for source in app.sources}
        self.caused: defaultdict[Place, Caused] = defaultdict(lambda: Caused(exact and whole))
        self.dead: defaultdict[Place, Caused] = defaultdict(lambda: Caused(whole=True))
        self._folded: defaultdict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
        self.dropped: dict[str, Difference] = {}

    def __call__(self, result: FoldResult) -> None:
        for topic, offset in _first_offsets(result):
            self.caused[self._ids[topic], result.partition].forget(offset)
            self.dead[self._ids[topic], result.partition].forget(offset)
        for letter in result.dead:
            content = self._content(self._app.dead_letters, letter.timestamp, _value_of(letter.value))
            self.dead[self._ids[letter.topic], result.partition].add(letter.offset, self._app.dead_letters, content)
        # Of one cause, in the order of the numbers.
        for marker, emit in sorted(marked(result.emits, result.partition, self._ids), key=lambda each: each[0]):
            topic = self._app.output(emit.topic)
            content = self._content(topic, emit.cause.timestamp, self._of_emit(emit))
            self.caused[marker[:2]].add(marker.offset, topic, content)
        for entry in result.entries if self._app.marked else ():
            if isinstance(entry, Record) and entry.marker:
                self._mark(entry, entry.marker, result.partition)

    def _of_emit(self, emit: Emit) -> Hashable:
        derived = self._app.emits[emit.topic]
        if not self._exact or derived.encode is not as_written:
            return None
        return emit.key, emit.value, emit.cause.timestamp if derived.dated else None

    def _content(self, topic: str, timestamp: int, content: Hashable) -> int:
        if timestamp < self._horizons.get(topic, 0):
            return GONE
        return OPEN if content is None else digest(content)

    def _mark(self, record: Record[object, object], marker: Marker, partition: int) -> None:
        """Note the first record with a marker. A lower marker is a repeat to readers: it must be of a folded record."""
        folded, place = self._folded[record.topic, *marker[:2]], marker[2:]
        if not folded or folded[-1] < place:
            folded.append(place)
            return
        index = bisect_left(folded, place)
        if folded[index] != place:
            at = f"{self._app.source(record.topic).topic}:{partition}:{record.offset}"
            reason = f"is dropped as a repeat, and no record with its marker {marker.encode().decode()} is folded"
            self.dropped[at] = Difference(at, reason)


def _first_offsets(result: FoldResult) -> Iterable[tuple[str, int]]:
    """The first offset of each topic."""
    return {entry.topic: entry.offset for entry in reversed(result.entries)}.items()


def _value_of(value: bytes | None) -> Hashable:
    return (None if value is None else sha256(value).hexdigest(),)


def digest(content: Hashable) -> int:
    """A hash that is not negative."""
    return hash(content) & (2**63 - 1)


@dataclass(frozen=True)
class Output:
    """A record of a derived topic: cause, number among the outputs of its cause, hash of the content."""

    place: Place
    offset: int
    number: int
    content: int


def letter(message: Message, header_ids: Collection[str]) -> Output | None:
    """A dead letter: the value is unchanged, or identified by its digest. None without a cause.

    header_ids: the ids of the topics with schema ids in headers, which a replay reads before the values.
    """
    if (cause := cause_of(message)) is None:
        return None
    cut = dict(message.headers() or []).get(SHA256_HEADER)
    if cause[0] in header_ids:
        _, value = framed(message.headers(), None, message.value())
        return Output(cause[:2], cause[2], 0, OPEN if cut else digest(_value_of(value)))
    content = (cut.decode(errors="replace"),) if isinstance(cut, bytes) else _value_of(message.value())
    return Output(cause[:2], cause[2], 0, digest(content))


def derived(message: Message, *, dated: bool) -> Output | None:
    """A record of a derived topic; None without a marker."""
    if (marker := Marker.from_headers(message.headers())) is None:
        return None
    content = digest((message.key(), message.value(), message.timestamp()[1] if dated else None))
    # Of a deleted user's record in the archive, only the marker is left.
    emptied = message.value() is None and message.timestamp()[0] == TIMESTAMP_NOT_AVAILABLE
    return Output(marker[:2], marker.offset, marker.number, OPEN if emptied else content)


class OutputCheck:
    """Looks for the outputs of `caused` among the records of topics.

    Records of causes ahead of the state, or in a topic that was created anew since, are ignored.
    """

    def __init__(self, caused: Mapping[Place, Caused], publishes: Publishes) -> None:
        self._caused = caused
        self._publishes = publishes
        self._seen = {place: bytearray(len(of.offsets)) for place, of in caused.items()}

    def replaced(self, marker: Marker) -> None:
        """An output was too large for its topic, and became a dead letter."""
        of = self._caused.get(marker[:2])
        if of and (index := of.find(marker.offset, marker.number)) is not None:
            self._seen[marker[:2]][index] = 1

    def wrong(self, topic: str, output: Output | None) -> str | None:
        """The fault of a record of `topic`; None after marking an expected record as seen."""
        if output is None:
            return "names no cause"
        of = self._caused.get(output.place)
        if of is None or output.offset >= of.reached or not self._publishes(output.place, output.offset):
            return None
        index = of.find(output.offset, output.number)
        cause = ":".join(map(str, (*output.place, output.offset)))
        if index is None or of.topics[index] != topic:
            return f"differs from the effect of {cause}" if of.whole else None
        if min(output.content, of.contents[index]) >= 0 and of.contents[index] != output.content:
            return f"differs from the effect of {cause}"
        self._seen[output.place][index] = 1
        return None

    def missing(self) -> Iterator[Difference]:
        """The outputs that are in no topic."""
        for place, of in self._caused.items():
            for index, seen in enumerate(self._seen[place]):
                offset = of.offsets[index]
                if not seen and of.contents[index] != GONE and self._publishes(place, offset):
                    yield Difference(":".join(map(str, (*place, offset))), f"is missing in {of.topics[index]}")


def is_letter(message: Message) -> bool:
    """Whether a record of a dead-letter topic says that a record was left out."""
    return not (is_derived(message) or is_receipt(message) or is_halting(message))
