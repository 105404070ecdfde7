"""The recount of the indexes of a profile. Shares no code with the fold."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from zlib import crc32

from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import MeasureWords, duration_ms
from streamstate.verify.profiles.words import Event, counted, subject
from streamstate.verify.recount import Stored

INDEX = "index"
_HOUR_MS, _SHARDS = 3_600_000, 64


class IndexRecount:
    """The indexes of a partition. time: the stream time."""

    def __init__(self, declared: Declaration) -> None:
        self.time = -1
        self._scales = {name: int(of.scale) for name, of in declared.types.items()}
        self._labels = {
            name: [words.over] if isinstance(words.over, str) else list(words.over)
            for name, words in declared.measures.items()
            if words.index
        }
        self._words = {name: declared.measures[name] for name in self._labels}
        self._sums: defaultdict[tuple[str, int, int], Counter[str]] = defaultdict(Counter)

    @property
    def ever(self) -> Mapping[str, MeasureWords]:
        """The measures with an index without a window."""
        return {name: self._words[name] for name, labels in self._labels.items() if "ever" in labels}

    def add(self, key: str, event: Event, time: int) -> None:
        """Add an event of `key` to the periods of windows."""
        self.time = time
        for name, words in self._words.items():
            for label in self._windows(name):
                window = duration_ms(label)
                period = event["timestamp"] // max(window, _HOUR_MS)
                value = self._value(words, event) if counted(words, [event]) else 0
                if period >= self._first(window) and value > 0:
                    self._sums[self._named(name, label), window, period][key] += value

    def keys(self, values: Iterable[tuple[str, Mapping[str, int]]]) -> Mapping[str, Stored]:
        """The keys and their members. values: the numbers of `ever` by key."""
        found: defaultdict[str, dict[bytes, float]] = defaultdict(dict)
        for key, of_key in values:
            for name in self.ever:
                found[f"{INDEX}:{self._named(name, 'ever')}/{_shard(key)}"][key.encode()] = -float(of_key[name])
        for (name, window, period), sums in self._sums.items():
            for key, value in sums.items() if period >= self._first(window) else ():
                found[f"{INDEX}:{name}/{_shard(key)}/{period}"][key.encode()] = -float(value)
        time = {INDEX: {b"time": b"%d" % self.time}} if self.time >= 0 and any(map(self._windows, self._words)) else {}
        return {**found, **time}

    def _value(self, words: MeasureWords, event: Event) -> int:
        return 1 if words.count else int(event[subject(words)] * 10 ** self._scales[subject(words)])

    def _windows(self, name: str) -> list[str]:
        return [label for label in self._labels[name] if label != "ever"]

    def _named(self, name: str, label: str) -> str:
        return name if len(self._labels[name]) == 1 else f"{name}_{label}"

    def _first(self, window: int) -> int:
        return max(0, self.time - _HOUR_MS - window) // max(window, _HOUR_MS)


def _shard(key: str) -> int:
    return crc32(key.encode()) % _SHARDS
