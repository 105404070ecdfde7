"""Clicks per region: every click counts in its user's region at the time of the click."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from streamstate.app import App, FoldContext, Source, Totals
from streamstate.errors import BadRecord
from streamstate.keys import TEXT
from streamstate.operators.tables import Joined, changelog, left_join, row
from streamstate.state.operations import Field, Fields, Merge, Operation, Read, Value
from streamstate.view import EXPLORE, UserKey, UserState, View

USER_CLICKS, USER_REGIONS, CLICKS_PER_REGION = "user-clicks", "user-regions", "clicks-per-region"
UNKNOWN = "UNKNOWN"
"""The region of a user without a known region."""

REGIONS = "regions"
"""The state key: the clicks of a partition's users, by region."""

MOST = 2**53
"""Up to here, numbers are exact in the state."""


class Region(msgspec.Struct):
    """The clicks of a region, by all users in the region at the time."""

    region: str
    clicks: int


class Regions(msgspec.Struct):
    """All regions by name."""

    regions: list[Region]


def decode_clicks(_user: str, value: bytes | None) -> int:
    """Digits, as Kafka's tools write them; a total that never goes down needs numbers from 0."""
    if not (value and len(value) <= 16 and value.isdigit() and int(value) <= MOST):
        msg = f"the value must be a whole number from 0 to 2^53 in digits; found {(value or b'')[:20]!r}"
        raise BadRecord(msg)
    return int(value)


def decode_region(_user: str, value: bytes) -> str:
    try:
        return TEXT.decode(value)
    except BadRecord as error:
        msg = f"the region is not the key of a total: {error}"
        raise BadRecord(msg) from error


def fold(records: Sequence[Joined[str]], _context: FoldContext) -> Iterable[Operation]:
    """Clicks by the region of their user at that time."""
    clicks: Counter[str] = Counter()
    for joined in records:
        if joined.record.topic == USER_CLICKS:
            clicks[joined.row or UNKNOWN] += joined.record.value
    if clicks:
        yield Merge(REGIONS, add=dict(clicks))


def places(user: str) -> Iterable[UserKey]:
    """Counts name no user: clicks of an erased user stay counted, in a new build without a region."""
    return [UserKey(Value(row(USER_REGIONS, user)))]


def reads_of_all() -> Sequence[Read]:
    """Of every partition: its part of the clicks."""
    return [Fields(REGIONS)]


def reads_of_one(name: str) -> Sequence[Read]:
    return [Field(REGIONS, name)]


def regions(partitions: Sequence[Sequence[Any]]) -> Regions:
    clicks: Counter[str] = Counter()
    for (fields,) in partitions:
        clicks.update(fields)
    return Regions([Region(*region) for region in sorted(clicks.items())])


def region(name: str, partitions: Sequence[Sequence[Any]]) -> Region | None:
    parts = [clicks for (clicks,) in partitions if clicks is not None]
    return Region(name, sum(parts)) if parts else None


# The regions are no table, because a table's topic is compacted, and a new build needs the former regions.
REGIONS_OF_USERS = changelog(USER_REGIONS, TEXT, decode_region, form="text")
CLICKS = Source(USER_CLICKS, TEXT, decode_clicks, form="text")
JOIN = left_join(REGIONS_OF_USERS, CLICKS, users=UserState(places), shared=fold)
APP = App(
    name="clicks",
    folds=(JOIN,),
    views=(
        View(
            name="regions",
            path="/v1/regions",
            summary="The clicks of every region",
            topic=None,
            key=None,
            reads=reads_of_all,
            answer=regions,
            example=Regions([Region("americas", 7), Region("europe", 109)]),
            scope=EXPLORE,
        ),
        View(
            name="region",
            path="/v1/regions/<key>",
            summary="The clicks of one region",
            topic=None,
            key=TEXT,
            reads=reads_of_one,
            answer=region,
            example=Region("europe", 109),
            scope=EXPLORE,
        ),
    ),
    totals=(Totals(CLICKS_PER_REGION, REGIONS),),
)
