"""Where the state of a profile is: the keys of one key's numbers, rankings, lists and history."""

from collections.abc import Iterable, Sequence
from typing import Any

from streamstate.profile.conditions import Condition
from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import Measure
from streamstate.profile.numbers import is_number, is_plain, is_ranked
from streamstate.state.operations import Fields, HistoryDays, Newest, Read, Size, Top, Value
from streamstate.view import MOST_MEMBERS, UserKey

NUMBERS, EVENTS, RULES = "numbers", "events", "rules"

HISTORY_BYTES = 2 * 2**20
"""The bytes of a day of a key's history: some 45,000 events. Further events are left out of windows, and counted."""

_ALL = 2**31 - 1


class Rankings:
    """The rankings of tops and distinct values. each: a measure of each ranking, by the ranking's name."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self.measures = list(measures)
        # The order of the measures in the file changes no key.
        by_name = sorted(self.measures, key=lambda measure: measure.name, reverse=True)
        self._first = {_ranked(measure): measure.name for measure in by_name}
        self.each = {self.name(measure): measure for measure in reversed(self.measures)}

    def name(self, measure: Measure) -> str:
        """The name of the ranking of `measure`: the first by name of the measures with the same ranking."""
        return self._first[_ranked(measure)]


def _ranked(measure: Measure) -> tuple[str, str, str, int]:
    """The values of a ranking, and the events."""
    return measure.field, measure.weight, repr(measure.where), measure.values


class Layout:
    """The keys of the measures without a window, and of the history of events of the windows of a key.

    numbers: measures kept as fields of the key's hash, the others by their own keys. rankings: by what they rank, so
        that a top and the distinct values of a field share one ranking. windowed…: of the measures with windows.
    """

    def __init__(self, declared: Declaration) -> None:
        self.declared = declared
        # The property searches the path, and each event's key comes here.
        self._everywhere = declared.everywhere
        ever = [measure for measure in declared.resolved if measure.ever]
        self.numbers = [measure for measure in ever if is_number(measure) and not is_plain(measure)]
        self.ranked = [measure for measure in ever if is_ranked(measure)]
        self.listed = [
            measure for measure in ever if not is_number(measure) and measure.kind in ("first", "last", "recent")
        ]
        self.windowed = [measure for measure in declared.resolved if measure.windows]
        self.plain = [measure.name for measure in declared.resolved if is_plain(measure)]
        self.rankings = Rankings(self.ranked)
        self.windowed_numbers = [measure for measure in self.windowed if is_number(measure)]
        self.windowed_rankings = Rankings(measure for measure in self.windowed if is_ranked(measure))

    @property
    def in_windows(self) -> Condition:
        """The events that a measure with windows counts."""
        return Condition(any=(tuple(measure.where for measure in self.windowed),))

    def state_key(self, name: str, key: Any) -> str:
        return name if self._everywhere else f"{name}:{key}"

    def values_key(self, measure: str, key: Any) -> str:
        """The state key of a ranking or list: a measure's name has no dot, so no other key has the same name."""
        return self.state_key(f"{measure}.values", key)

    def reads(self, key: Any = "") -> Sequence[Read]:
        """The reads of an answer: numbers, the measures of `ranked` and `listed`, and the history.

        Over all keys, a ranking is read whole, since another partition may have further counts of each member.
        """
        ranked: list[Read] = []
        compact = self.declared.packed
        for measure in self.ranked:
            own = self.values_key(self.rankings.name(measure), key)
            if self.declared.everywhere:
                ranked.append(Top(own, _ALL))
            else:
                ranked.append(Size(own, compact) if measure.kind == "distinct" else Top(own, measure.n))
        listed = [Newest(self.values_key(measure.name, key), length(measure)) for measure in self.listed]
        return [Fields(self.state_key(NUMBERS, key)), *ranked, *listed, *self._history(key)]

    def places(self, key: Any) -> Iterable[UserKey]:
        compact = self.declared.packed
        yield UserKey(Fields(self.state_key(NUMBERS, key)))
        yield from (UserKey(Top(self.values_key(name, key), MOST_MEMBERS, compact)) for name in self.rankings.each)
        yield from (UserKey(Newest(self.values_key(measure.name, key), MOST_MEMBERS)) for measure in self.listed)
        yield from (UserKey(read, EVENTS) for read in self._history(key))
        if self.declared.rules:
            yield UserKey(Value(self.state_key(RULES, key)))

    def _history(self, key: Any) -> Sequence[Read]:
        return [HistoryDays(EVENTS, str(key))] if self.windowed and not self.declared.everywhere else []


def length(measure: Measure) -> int:
    """The length of a list."""
    return measure.n or 1
