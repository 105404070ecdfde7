"""The walk over the shards of an index: bounded reads of candidates, and of their values. Pure.

The order of keys depends on no value. So a key that matches during a whole walk is in exactly one of its answers.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from streamstate.errors import BadParameter
from streamstate.profile.answer import require_kept
from streamstate.profile.declaration import Declaration
from streamstate.profile.indexes.cursor import KeyCursor
from streamstate.profile.indexes.layout import AHEAD_MS, SHARDS, Index
from streamstate.profile.indexes.where import Comparison
from streamstate.profile.layout import EVENTS, NUMBERS, Layout
from streamstate.profile.measure import TrailingWindow
from streamstate.profile.numbers import COUNT, is_plain
from streamstate.profile.windows.busy import rows
from streamstate.profile.windows.histories import WindowMeasure
from streamstate.state.operations import DAY_MS, MOST, Fields, HistoryDays, Read, Size, Top

MOST_OF_SHARD = 20_000
"""The most matching keys of a shard of a partition."""

MOST_COMPARED = 1_000
"""The most candidates of an answer whose values are read."""

_TOGETHER = 50
"""Candidates whose values are read at a time: the process answers other requests between two reads."""

Reads = Mapping[int, Sequence[Read]]
Values = Mapping[int, Sequence[Any]]


class Candidate(NamedTuple):
    """A key that may match."""

    cell: int
    key: str

    @property
    def partition(self) -> int:
        return self.cell // SHARDS


class Walk:
    """An answer about the keys for which all `asked` hold at the moment `at`.

    The index of the first comparison gives the candidates. Their values decide, unless the index is exact: for a single
    comparison without a window. time: the greatest stream time of a partition; only needed for windows.
    """

    def __init__(self, declared: Declaration, asked: Sequence[Comparison], partitions: int, at: int, time: int) -> None:
        """Raises `BadParameter` for a moment too long ago."""
        self._asked = asked
        self._partitions = partitions
        self._at = at
        self._layout = Layout(declared)
        self._windows = any(each.index.window for each in asked)
        self._exact = len(asked) == 1 and not self._windows
        self._windowed = {
            each.index.name: WindowMeasure(each.index.measure, declared) for each in asked if each.index.window
        }
        if self._windows and at < time - AHEAD_MS:
            msg = f"at: the earliest moment is {time - AHEAD_MS}, an hour before the last event"
            raise BadParameter(msg)

    def find(self, limit: int, cursor: str) -> Generator[Reads, Values, tuple[Sequence[str], str | None]]:
        """The next keys behind `cursor`, and the cursor of the keys behind them. Raises `BadParameter`."""
        begin = KeyCursor.decode(cursor, self._partitions)
        cells = yield from self._sizes(begin.cell)
        chosen = _first(cells, limit if self._exact else MOST_COMPARED)
        candidates = [each for each in (yield from self._candidates(chosen)) if each > begin[1:]]
        if self._exact:
            found, passed = candidates[:limit], candidates[:limit]
        else:
            found, passed = yield from self._matching(candidates, limit)
        if len(passed) < len(candidates):
            return _keys(found), KeyCursor(self._partitions, *passed[-1]).encode()
        following = next(iter([*cells][len(chosen) :]), None)
        return _keys(found), None if following is None else KeyCursor(self._partitions, following).encode()

    def count(self) -> Generator[Reads, Values, tuple[int, bool]]:
        """The number of keys, and whether it is exact: of more candidates than are read, a part is counted."""
        cells = yield from self._sizes(0)
        if self._exact:
            return sum(cells.values()), True
        chosen = _first(cells, MOST_COMPARED)
        candidates = yield from self._candidates(chosen)
        found, passed = yield from self._matching(candidates, MOST_COMPARED)
        return len(found), len(passed) == len(candidates) and len(chosen) == len(cells)

    def _sizes(self, first: int) -> Generator[Reads, Values, dict[int, int]]:
        """The numbers of candidates of the cells from `first` on, without empty cells."""
        cells = range(first, self._partitions * SHARDS)
        values = yield _by_partition((cell, self._places(cell, Size)) for cell in cells)
        places = len(self._places(first, Size))
        sizes = {partition: iter(of) for partition, of in values.items()}
        found = {cell: sum(next(sizes[cell // SHARDS]) for _ in range(places)) for cell in cells}
        return {cell: size for cell, size in found.items() if size}

    def _candidates(self, cells: Mapping[int, int]) -> Generator[Reads, Values, list[Candidate]]:
        """The candidates of `cells` with these numbers, in order. Raises `BadParameter` for too many."""
        if not cells:
            return []
        if max(cells.values()) > MOST_OF_SHARD:
            msg = (
                f"where: more than {MOST_OF_SHARD:,} keys of a shard match {self._asked[0].index.name}; let a more "
                "selective comparison be the first"
            )
            raise BadParameter(msg)
        values = yield _by_partition((cell, self._places(cell, Top)) for cell in cells)
        places = len(self._places(next(iter(cells)), Top))
        rankings = {partition: iter(of) for partition, of in values.items()}
        found: set[Candidate] = set()
        for cell in cells:
            for _ in range(places):
                found.update(Candidate(cell, key) for key, _ in next(rankings[cell // SHARDS]))
        return sorted(found)

    def _matching(
        self, candidates: list[Candidate], limit: int
    ) -> Generator[Reads, Values, tuple[list[Candidate], list[Candidate]]]:
        """Up to `limit` matching keys, and the candidates up to the last."""
        found: list[Candidate] = []
        for start in range(0, min(len(candidates), MOST_COMPARED), _TOGETHER):
            piece = candidates[start : start + _TOGETHER]
            values = yield _by_partition((each.cell, self._reads(each.key)) for each in piece)
            states = {partition: iter(of) for partition, of in values.items()}
            width = len(self._reads(""))
            for number, each in enumerate(piece, start + 1):
                if self._holds([next(states[each.partition]) for _ in range(width)]):
                    found.append(each)
                    if len(found) == limit:
                        return found, candidates[:number]
        return found, candidates[:MOST_COMPARED]

    def _places(self, cell: int, kind: type[Size | Top]) -> list[Read]:
        """The reads of the first comparison's index in a cell."""
        index, ranges = self._asked[0].index, self._asked[0].ranges
        shard = cell % SHARDS
        if index.window is None:
            return [_read(kind, index.key(shard), within) for within in ranges]
        [(least, _)] = ranges
        first, last = ((moment // index.period_ms) for moment in (self._at - index.window.ms, self._at))
        half = -(-least // 2) if first < last else least
        return [_read(kind, index.key(shard, period), (half, MOST)) for period in range(first, last + 1)]

    def _reads(self, key: str) -> list[Read]:
        history: list[Read] = [HistoryDays(EVENTS, key)] if self._windows else []
        return [Fields(self._layout.state_key(NUMBERS, key)), *history]

    def _holds(self, state: Sequence[Any]) -> bool:
        """Whether all comparisons hold for the key of `state`."""
        numbers, *histories = state
        if not numbers:
            return False
        return all(
            each.holds(self._trailing(each.index, each.index.window, *histories[0]))
            if each.index.window
            else each.holds(numbers.get(COUNT if is_plain(each.index.measure) else each.index.measure.name, 0))
            for each in self._asked
        )

    def _trailing(
        self, index: Index, window: TrailingWindow, expired: int, days: Mapping[int, str], _left_out: Any
    ) -> int:
        """The value of a measure in its window. Raises `BadParameter` for a moment too long ago."""
        start = self._at - window.ms
        require_kept(start, expired, window.ms)
        within = (rows(day, days[day]) for day in sorted(days) if start // DAY_MS <= day <= self._at // DAY_MS)
        measure = self._windowed[index.name]
        part = measure.part(row for of_day in within for row in of_day if start <= row[0] <= self._at)
        value: int = measure.value([part])
        return value


def _first(cells: Mapping[int, int], wanted: int) -> dict[int, int]:
    """The first cells, up to the cell that reaches `wanted` candidates."""
    chosen: dict[int, int] = {}
    for cell, size in cells.items():
        chosen[cell] = size
        wanted -= size
        if wanted <= 0:
            break
    return chosen


def _by_partition(reads: Iterable[tuple[int, Sequence[Read]]]) -> Reads:
    found: dict[int, list[Read]] = {}
    for cell, of_cell in reads:
        found.setdefault(cell // SHARDS, []).extend(of_cell)
    return found


def _read(kind: type[Size | Top], key: str, within: tuple[int, int]) -> Read:
    # A shard may have grown since its size was read.
    return Size(key, within=within) if kind is Size else Top(key, 2 * MOST_OF_SHARD, within=within)


def _keys(candidates: Iterable[Candidate]) -> list[str]:
    return [each.key for each in candidates]
