"""Clicks per region: every click counts in its user's region at the time of the click."""

from typing import Annotated

import msgspec
from msgspec import Meta

from streamstate.app import App, Record, Totals
from streamstate.functions import Counters, State, Text, fold, source, view
from streamstate.keys import TEXT

USER_CLICKS, USER_REGIONS, CLICKS_PER_REGION = "user-clicks", "user-regions", "clicks-per-region"
UNKNOWN = "UNKNOWN"
"""The region of a user without a known region."""

CLICKS = source(USER_CLICKS, Annotated[int, Meta(ge=0, le=2**53)])
REGIONS = source(USER_REGIONS, TEXT, deletes=True)


class UserRegion(State, by=REGIONS, users=True):
    """The region of a user."""

    region = Text(loaded=True)


class Clicks(State):
    """The clicks of a partition's users by region. They name no user, and stay counted when a user is deleted."""

    regions = Counters()


class Region(msgspec.Struct):
    """The clicks of a region, by all users in the region at the time."""

    region: str
    clicks: int


class Regions(msgspec.Struct):
    """All regions by name."""

    regions: list[Region]


# The regions come first at equal times: a click counts in the region of its moment.
@fold(REGIONS, CLICKS, version=2)
def count(record: Record[str, int | str | None], user: UserRegion, clicks: Clicks) -> None:
    """Move a user, or count clicks."""
    if isinstance(record.value, int):
        clicks.regions.add(user.region.value or UNKNOWN, record.value)
    else:
        user.region.set(record.value)


@view("/v1/regions", Regions([Region("americas", 7), Region("europe", 109)]), scope="explore")
def regions(clicks: Clicks) -> Regions:
    """The clicks of every region."""
    return Regions([Region(*region) for region in sorted(clicks.regions.all().items())])


@view("/v1/regions/<key>", Region("europe", 109), scope="explore")
def region(name: str, clicks: Clicks) -> Region | None:
    """The clicks of one region."""
    number = clicks.regions.get(name)
    return None if number is None else Region(name, number)


APP = App("clicks", (count,), (regions, region), (Totals(CLICKS_PER_REGION, Clicks.regions.name),))
