"""The record of a service's releases, and the next record of each command. Pure.

A turn gives the outputs (derived records, totals, dead letters) to one release, from a cut of offsets on.
Each offset has one publishing release, whenever a process reads the record: no repeat and no gap.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from streamstate.errors import Declined, Misconfigured

Place = tuple[str, int]
"""Topic and partition."""

AT_START: Mapping[Place, int] = {}
"""The next offsets of a state without records."""

KEPT_TURNS = 6
"""Turns that are kept even when all releases are past them: `previous_release` reads them."""


class Turn(msgspec.Struct, frozen=True):
    """`release` publishes the outputs of records from the offsets `cuts` (by topic and partition, else 0) on."""

    release: str
    cuts: dict[str, dict[int, int]] = {}

    def cut(self, place: Place) -> int:
        return self.cuts.get(place[0], {}).get(place[1], 0)

    def begun(self, positions: Mapping[Place, int]) -> bool:
        """Whether a state at `positions` has all records before this turn."""
        return all(cut <= positions.get((topic, p), 0) for topic, cuts in self.cuts.items() for p, cut in cuts.items())


class Releases(msgspec.Struct, frozen=True):
    """The releases of a service, as stored in one key.

    live: the release whose answers the gateway gives. releases: the names of the releases that exist, the first
        release included. turns: in order of their cuts; the last turn may be ahead of `live`. number: the number of
        changes, greater in a later record.
    """

    live: str
    releases: tuple[str, ...]
    turns: tuple[Turn, ...]
    number: int = 1

    @property
    def publisher(self) -> str:
        """The release with the last turn."""
        return self.turns[-1].release

    def publishes(self, release: str, place: Place, offset: int) -> bool:
        """Whether `release` publishes the outputs of the record at `offset`."""
        return next((turn.release for turn in reversed(self.turns) if offset >= turn.cut(place)), "") == release

    def spans(self, release: str, place: Place, end: int) -> list[tuple[int, int]]:
        """The offsets before `end` whose outputs `release` publishes: from, and to before."""
        cuts = [*((turn.release, turn.cut(place)) for turn in self.turns), ("", end)]
        spans = [(begin, min(to, end)) for (name, begin), (_, to) in pairwise(cuts) if name == release]
        return [(begin, to) for begin, to in spans if begin < to]

    def owes(self, release: str, ends: Mapping[Place, int]) -> dict[Place, int]:
        """The number of offsets that `release` will still publish behind `ends`, by place, before a later turn."""
        owed = {}
        for place, end in ends.items():
            cuts = [(turn.release, turn.cut(place)) for turn in self.turns]
            ahead = sum(max(0, to - max(begin, end)) for (name, begin), (_, to) in pairwise(cuts) if name == release)
            if ahead:
                owed[place] = ahead
        return owed

    def before(self, release: str, place: Place, offset: int) -> dict[str, int]:
        """The ends of the last outputs before `offset` of each other release."""
        spans = {name: self.spans(name, place, offset) for name in self.releases if name != release}
        return {name: of[-1][1] for name, of in spans.items() if of}

    def in_use(self, release: str, positions: Mapping[Place, int]) -> bool:
        """Whether clients depend on `release` at `positions`: it answers, or has outputs to publish."""
        return release in (self.live, self.publisher) or bool(self.owes(release, positions))


@dataclass(frozen=True)
class Voice:
    """The outputs of `release` by `record`; all outputs without a record."""

    release: str
    record: Releases | None = None

    @property
    def beside(self) -> bool:
        """Whether another release answers, from the same Redis."""
        return self.record is not None and self.record.live != self.release

    def publishes(self, place: Place, offset: int) -> bool:
        """Whether the outputs of the record at `offset` are this release's."""
        return self.record is None or self.record.publishes(self.release, place, offset)

    def before(self, place: Place, offset: int) -> Mapping[str, int]:
        """The ends of the last outputs before `offset` of each other release; empty without the last turn."""
        if self.record is None or self.record.publisher != self.release:
            return {}
        return self.record.before(self.release, place, offset)

    def totals(self, positions: Mapping[Place, int], ends: Callable[[], Mapping[Place, int]]) -> bool:
        """Whether a state at `positions` publishes totals: in the last turn, with all records before the turn.

        `ends` are the present ends of the topics: a cut may be ahead of them.
        """
        if self.record is None:
            return True
        turn = self.record.turns[-1]
        if turn.release != self.release:
            return False
        late = [place for place, at in positions.items() if at < turn.cut(place)]
        return not late or all(positions[place] >= end for place, end in ends().items() if place in late)


def voice(record: Releases | None, release: str, of: str) -> Voice:
    """The outputs of `release`, one of the releases of `of`. Raises `Misconfigured` for an unstaged release."""
    if record and (release in record.releases or any(turn.release == release for turn in record.turns)):
        return Voice(release, record)
    if release == of:
        return Voice(release)
    msg = (
        f"{release} would write into topics of {of}: run `streamstate stage SERVICE --name {release}`, or remove "
        "RELEASE_OF and name other topics in TOPICS"
    )
    raise Misconfigured(msg)


def first(live: str) -> Releases:
    """The record of a service with the single release `live`."""
    return Releases(live, (live,), (Turn(live),))


def encoded(record: Releases) -> bytes:
    return msgspec.json.encode(record)


def decoded(text: bytes | None) -> Releases | None:
    """The record in the stored `text`, None without a record."""
    return None if text is None else msgspec.json.decode(text, type=Releases)


def staged(record: Releases, release: str) -> Releases:
    """`release` beside the others: silent until its turn. Raises `Declined` for an existing release."""
    if release in record.releases:
        msg = (
            f"{release} is staged already; `streamstate wait SERVICE {release}` shows its progress, "
            f"`streamstate drop SERVICE {release}` ends it"
        )
        raise Declined(msg)
    # The offsets of an earlier release of the same name are not those of the new state.
    turns = tuple(Turn("" if turn.release == release else turn.release, turn.cuts) for turn in record.turns)
    return _next(record, releases=(*record.releases, release), turns=turns)


def turned(
    record: Releases, release: str, cuts: Mapping[Place, int], reached: Mapping[Place, int] = AT_START
) -> Releases:
    """`release` publishes from `cuts` on, or from the last turn's cut where that is later.

    reached: the least next offsets of all releases. Offsets before them belong to the earliest kept turn.
    """
    require(record, release)
    by_topic: dict[str, dict[int, int]] = {}
    for place, cut in cuts.items():
        by_topic.setdefault(place[0], {})[place[1]] = max(cut, record.turns[-1].cut(place))
    turns = (*record.turns, Turn(release, by_topic))
    while len(turns) > KEPT_TURNS and turns[1].begun(reached):
        turns = (Turn(turns[1].release), *turns[2:])
    return _next(record, turns=turns)


def handed_over(record: Releases, ends: Mapping[Place, int]) -> Releases:
    """The last turn begins at `ends`, behind which there is no record yet, instead of later."""
    return _next(record, turns=tuple(Turn(turn.release, _at_most(turn, ends)) for turn in record.turns))


def _at_most(turn: Turn, ends: Mapping[Place, int]) -> dict[str, dict[int, int]]:
    """The cuts of `turn`, none later than `ends`."""
    return {
        topic: {p: min(cut, ends.get((topic, p), cut)) for p, cut in cuts.items()} for topic, cuts in turn.cuts.items()
    }


def switched(record: Releases, release: str) -> Releases:
    """`release` is live."""
    require(record, release)
    return _next(record, live=release)


def dropped(record: Releases, release: str) -> Releases:
    """The record without `release`. Raises `Declined` for the live release and the publisher."""
    require(record, release)
    if release in (record.live, record.publisher):
        others = [f"`streamstate promote SERVICE {name}`" for name in record.releases if name != release]
        way = f"by {' or '.join(others)}" if others else "after `streamstate stage SERVICE`"
        msg = f"{release} is live: promote another release first, {way}"
        raise Declined(msg)
    return _next(record, releases=tuple(name for name in record.releases if name != release))


def require(record: Releases, release: str) -> None:
    """Raise `Declined` when there is no such release."""
    if release not in record.releases:
        msg = f"there is no release {release}; there are {', '.join(record.releases)}: `streamstate stage SERVICE`"
        raise Declined(msg)


def behind_turn(record: Releases) -> bool:
    """Whether a promotion was interrupted between its two writes."""
    return record.publisher != record.live


def next_release(record: Releases) -> str:
    """The release to promote where none is named: of an interrupted promotion, else the only other release.

    Raises `Declined` when there are none, or several.
    """
    if behind_turn(record):
        return record.publisher
    others = [name for name in record.releases if name != record.live]
    if len(others) != 1:
        there = ", ".join(others) or "none, until `streamstate stage SERVICE`"
        msg = f"name the release: beside {record.live} there are {there}"
        raise Declined(msg)
    return others[0]


def previous_release(record: Releases) -> str:
    """The release to go back to: the release of the turn before the live release's.

    An interrupted promotion of another release is undone: the live release stays.

    Raises `Declined` when there is none.
    """
    turns = record.turns[:-1] if behind_turn(record) else record.turns
    before = [turn.release for turn in turns if turn.release in record.releases and turn.release != record.live]
    if behind_turn(record):
        return record.publisher if before and before[-1] == record.publisher else record.live
    if not before:
        msg = f"{record.live} has no release before it to go back to"
        raise Declined(msg)
    return before[-1]


def next_write(
    record: Releases, release: str, cuts: Mapping[Place, int], reached: Mapping[Place, int] = AT_START
) -> Releases | None:
    """The next record to store so that `release` publishes from `cuts` on and is live; None when it does and is.

    reached: as of `turned`.
    First the turn is stored, then the live release: after a kill in between, the same call continues with the second.
    """
    require(record, release)
    if record.publisher != release:
        return turned(record, release, cuts, reached)
    return switched(record, release) if record.live != release else None


def _next(record: Releases, **changes: Any) -> Releases:
    return msgspec.structs.replace(record, number=record.number + 1, **changes)
