"""The record of a service's releases, and the next record of each step of a command. Pure.

`live` answers. `publisher` publishes the outputs (derived records, totals, dead letters) of records from the cuts on.
A hand-over of the outputs has three steps, each a new record:

1. `handing_over`: nobody publishes. The command then fences all partitions by the record's number, which gives the
   positions of both releases.
2. `handed_over`: the cut of a partition is the greater of both positions. The former publisher publishes up to it.
3. `completed`: the former publisher has reached the cuts, and the new one begins.

So outputs are published in the order of their causes, without a gap: readers take a smaller marker for a repeat.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from streamstate.errors import Declined, Misconfigured

Place = tuple[str, int]
"""Topic and partition."""


class Releases(msgspec.Struct, frozen=True):
    """The releases of a service, as stored in one key.

    live: the release whose answers the gateway gives. releases: the names of the releases, the first included.
    publisher: publishes the outputs from the `cuts` (by topic and partition, else 0) on, as soon as there is no
        `former`, the release that has outputs before the cuts to publish. successor: gets the outputs by a hand-over
        that has begun. previous: was live before. dropping: is being deleted. number: greater in a later record.
    """

    live: str
    releases: tuple[str, ...]
    publisher: str
    cuts: dict[str, dict[int, int]] = {}
    former: str = ""
    successor: str = ""
    previous: str = ""
    dropping: str = ""
    number: int = 1

    def cut(self, place: Place) -> int:
        return self.cuts.get(place[0], {}).get(place[1], 0)

    def publishes(self, release: str, place: Place, offset: int) -> bool:
        """Whether `release` publishes the outputs of the record at `offset`."""
        return release == (self.former if offset < self.cut(place) else self.publisher)

    def owes(self, release: str, positions: Mapping[Place, int]) -> dict[Place, int]:
        """By place, the number of offsets whose outputs a former publisher at `positions` has still to publish."""
        if release != self.former:
            return {}
        cuts = {(topic, p): cut for topic, of_topic in self.cuts.items() for p, cut in of_topic.items()}
        return {place: cut - at for place, cut in cuts.items() if (at := positions.get(place, 0)) < cut}

    def in_use(self, release: str) -> bool:
        """Whether clients depend on `release`: it answers, or has outputs to publish."""
        return release in (self.live, self.publisher, self.former)


@dataclass(frozen=True)
class Publishing:
    """The outputs of `release` by `record`; all outputs without a record."""

    release: str
    record: Releases | None = None

    @property
    def number(self) -> int:
        return self.record.number if self.record else 0

    @property
    def beside(self) -> bool:
        """Whether another release answers, from the same Redis."""
        return self.record is not None and self.record.live != self.release

    @property
    def waits(self) -> str:
        """Why the release may not publish now; empty when it may."""
        if self.record and self.record.successor:
            return f"the outputs are handed over to {self.record.successor}"
        if self.record and self.record.former and self.record.publisher == self.release:
            return (
                f"{self.record.former} has outputs to publish first: let its streams run, or give its outputs up by "
                f"`streamstate drop SERVICE {self.record.former} --without-outputs`"
            )
        return ""

    def publishes(self, place: Place, offset: int) -> bool:
        """Whether the outputs of the record at `offset` are this release's."""
        return self.record is None or self.record.publishes(self.release, place, offset)

    def since(self, place: Place) -> int | None:
        """The first offset from which on all outputs are this release's; None without such."""
        if self.record is None:
            return 0
        return self.record.cut(place) if self.record.publisher == self.release else None

    def totals(self, positions: Mapping[Place, int]) -> bool:
        """Whether a state at `positions` publishes totals: it publishes, and has all records before the cuts."""
        if self.record is None:
            return True
        before_cut = any(at < self.record.cut(place) for place, at in positions.items())
        return self.record.publisher == self.release and not (self.waits or before_cut)


def publishing(record: Releases | None, release: str, of: str) -> Publishing:
    """The outputs of `release`, one of the releases of `of`. Raises `Misconfigured` for an unstaged release."""
    if record and (release in record.releases or release == record.dropping):
        return Publishing(release, record)
    if release == of and record is None:
        return Publishing(release)
    msg = (
        f"{release} is no release of {of}, into whose topics it would write: run `streamstate stage SERVICE --name "
        f"{release}`; after a loss of the record, `streamstate adopt SERVICE RELEASE`; or remove RELEASE_OF and "
        "name other topics in TOPICS"
    )
    raise Misconfigured(msg)


def require_kept(record: Releases | None, number: int, of: str) -> None:
    """Raise `Misconfigured` for a `record` older than `number`, the latest by which a state was written."""
    if number > (record.number if record else 0):
        msg = (
            f"the record of the releases of {of} is lost: restore it from a backup by `streamstate restore`, or make "
            "it anew by `streamstate adopt SERVICE RELEASE`"
        )
        raise Misconfigured(msg)


def first(live: str) -> Releases:
    """The record of a service with the single release `live`."""
    return Releases(live, (live,), live)


def adopted(live: str, releases: tuple[str, ...], positions: Mapping[Place, int], number: int) -> Releases:
    """The record in place of a lost one: `live`, whose state is at `positions`, publishes from there on."""
    return Releases(live, releases, live, _by_topic(positions), number=number)


def encoded(record: Releases) -> bytes:
    return msgspec.json.encode(record)


def decoded(text: bytes | None) -> Releases | None:
    """The record in the stored `text`, None without a record. Raises `Misconfigured` for an earlier version's."""
    try:
        return None if text is None else msgspec.json.decode(text, type=Releases)
    except msgspec.ValidationError as error:
        msg = "the record of releases is of an earlier version: make it anew by `streamstate adopt SERVICE RELEASE`"
        raise Misconfigured(msg) from error


def staged(record: Releases, release: str) -> Releases:
    """`release` beside the others, silent. Raises `Declined` for an existing release, and beside another staged one."""
    used = {record.live, record.publisher, record.former, record.previous}
    waiting = [name for name in (*record.releases, record.dropping) if name and name not in used]
    if taken := [name for name in (*record.releases, *waiting) if name == release] or waiting:
        msg = (
            f"{taken[0]} is staged already; `streamstate wait SERVICE {taken[0]}` shows its progress, "
            f"`streamstate drop SERVICE {taken[0]}` ends it"
        )
        raise Declined(msg)
    return _next(record, releases=(*record.releases, release))


def switched(record: Releases, release: str) -> Releases:
    """`release` is live."""
    require(record, release)
    return _next(record, live=release, previous=record.live)


def handing_over(record: Releases) -> Releases:
    """The outputs go to the live release: nobody publishes until the next record."""
    return _next(record, successor=record.live)


def cancelled(record: Releases) -> Releases:
    """The hand-over that has begun is undone."""
    return _next(record, successor="")


def handed_over(record: Releases, former: Mapping[Place, int], successor: Mapping[Place, int]) -> Releases:
    """The successor publishes, from the greater of the fenced positions of both releases on."""
    cuts = {place: max(former.get(place, 0), successor.get(place, 0)) for place in {**former, **successor}}
    after = _next(record, publisher=record.successor, cuts=_by_topic(cuts), former=record.publisher, successor="")
    return after if after.owes(record.publisher, former) else msgspec.structs.replace(after, former="")


def completed(record: Releases) -> Releases:
    """The former publisher has no more outputs to publish."""
    return _next(record, former="")


def dropping(record: Releases, release: str, *, without_outputs: bool = False) -> Releases:
    """The record while `release` is deleted. Raises `Declined` for a release in use.

    without_outputs: a former publisher's outputs are given up.
    """
    if release == record.dropping:
        return record
    require(record, release)
    if release in (record.live, record.publisher, record.successor):
        others = [f"`streamstate promote SERVICE {name}`" for name in record.releases if name != release]
        way = f"by {' or '.join(others)}" if others else "after `streamstate stage SERVICE`"
        msg = f"{release} is live: promote another release first, {way}"
        raise Declined(msg)
    if record.dropping:
        msg = f"{record.dropping} is being dropped: finish it first by `streamstate drop SERVICE {record.dropping}`"
        raise Declined(msg)
    if release == record.former and not without_outputs:
        msg = f"{release} has outputs to publish: let its streams run until it owes nothing"
        raise Declined(msg)
    left = {name: "" for name in ("former", "previous") if getattr(record, name) == release}
    return _next(record, releases=tuple(name for name in record.releases if name != release), dropping=release, **left)


def dropped(record: Releases) -> Releases:
    """The record after the deletion."""
    return _next(record, dropping="")


def require(record: Releases, release: str) -> None:
    """Raise `Declined` when there is no such release."""
    if release not in record.releases:
        msg = f"there is no release {release}; there are {', '.join(record.releases)}: `streamstate stage SERVICE`"
        raise Declined(msg)


def next_release(record: Releases) -> str:
    """The release of a command that names none: the only other release. Raises `Declined` for none or several."""
    others = [name for name in record.releases if name != record.live]
    if len(others) != 1:
        there = ", ".join(others) or "none, until `streamstate stage SERVICE`"
        msg = f"name the release: beside {record.live} there are {there}"
        raise Declined(msg)
    return others[0]


def previous_release(record: Releases) -> str:
    """The release to go back to. Raises `Declined` when there is none."""
    if not record.previous:
        msg = f"{record.live} has no release before it to go back to"
        raise Declined(msg)
    return record.previous


def _by_topic(positions: Mapping[Place, int]) -> dict[str, dict[int, int]]:
    cuts: dict[str, dict[int, int]] = {}
    for (topic, partition), position in positions.items():
        cuts.setdefault(topic, {})[partition] = position
    return cuts


def _next(record: Releases, **changes: Any) -> Releases:
    return msgspec.structs.replace(record, number=record.number + 1, **changes)
