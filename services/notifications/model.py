"""Messages about closed users, and how many each user got: a filter, a stream-table join, and hopping windows."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from services.notifications.settings import DAY_MS, GraceSettings
from streamstate.app import App, Derived, Effect, Emit, FoldContext, Source
from streamstate.errors import BadRecord
from streamstate.keys import TEXT
from streamstate.operators.pages import Page
from streamstate.operators.tables import Joined, changelog, left_join, row
from streamstate.operators.windows import Sample, Update, Windowed, Windows, summaries, timeline
from streamstate.state.operations import Between, Read, Value
from streamstate.view import MOST_MEMBERS, UserKey, UserState, View

OPEN, TICK = "open", "tick"
NOTIFICATIONS, NOTIFICATION_WINDOWS = "notifications", "notification-windows"
CLOSED = ("Close", "Closed")
"""Both are the same state."""

STATES = ("Open", *CLOSED)
MESSAGE = b"You are not currently viewing Facebook."
MINUTE_MS = 60_000
SIZE_MS = 10 * MINUTE_MS
FAMILY = "windows"


class WindowUpdate(msgspec.Struct, rename="camel"):
    """The number of a user's messages in a window, after a further message."""

    user: str
    window_start: int
    window_end: int
    count: int


class Window(msgspec.Struct):
    """The messages from `start` to before `end` (milliseconds since 1970)."""

    start: int
    end: int
    count: int


class Notified(msgspec.Struct):
    """Windows in the order of the request; `next` is the cursor of the next page, null on the last page."""

    user: str
    windows: list[Window]
    next: str | None


def decode_state(_user: str, value: bytes) -> str:
    if (state := value.decode()) not in STATES:
        msg = f"the value must be one of {', '.join(STATES)}; found {state[:20]!r}"
        raise BadRecord(msg)
    return state


def decode_tick(_user: str, _value: bytes | None) -> None:
    """A tick has no content; any value is accepted."""


def fold(records: Sequence[Joined[str]], context: FoldContext, *, windowed: Windowed) -> Iterable[Effect]:
    """Each record of a closed user is a message: the closing itself, and every later tick."""
    samples: list[Sample] = []
    for joined in records:
        record, closed = joined.record, joined.row in CLOSED
        samples.append((record, 1 if closed else None))
        if closed:
            yield Emit(NOTIFICATIONS, TEXT.encode(record.key), MESSAGE, record)
    updates, operations = windowed.sum_up(samples, context)
    yield from map(_published, updates)
    yield from operations


def _published(update: Update) -> Emit:
    key = update.record.key
    value = WindowUpdate(key, update.summary.start, update.end, update.summary.count)
    return Emit(NOTIFICATION_WINDOWS, TEXT.encode(key), msgspec.json.encode(value), update.record)


def reads(user: str, page: Page) -> Sequence[Read]:
    return page.reads(timeline(FAMILY, user))


def places(user: str) -> Iterable[UserKey]:
    yield UserKey(Value(row(OPEN, user)))
    yield UserKey(Between(timeline(FAMILY, user), 0, n=MOST_MEMBERS), FAMILY)


def notified(user: str, values: Sequence[Any], page: Page) -> Notified | None:
    """The windows of the page, None for a user without a message in the kept windows."""
    if (cut := page.cut(values)) is None:
        return None
    entries, following = cut
    windows = [Window(window.start, window.start + SIZE_MS, window.count) for window in summaries(entries)]
    return Notified(user, windows, following)


def app(settings: GraceSettings) -> App:
    """The use case, with the grace of its windows in milliseconds."""
    windowed = Windowed(FAMILY, Windows(SIZE_MS, MINUTE_MS, retention=2 * DAY_MS, grace=settings.grace_ms))

    def apply(records: Sequence[Joined[str]], context: FoldContext) -> Iterable[Effect]:
        return fold(records, context, windowed=windowed)

    # Ticks matter while windows are kept; a user stays closed until a record opens the user again.
    states = changelog(OPEN, TEXT, decode_state, form="text")
    ticks = Source(TICK, TEXT, decode_tick, requires_beginning=False, form="text")
    return App(
        name="notifications",
        folds=(left_join(states, ticks, apply, windowed.reads, 2, windowed.windows.settings, UserState(places)),),
        views=(
            View(
                name="notifications",
                path="/v1/notifications/<key>",
                summary="How many messages a user got, in windows of ten minutes that start every minute",
                topic=OPEN,
                key=TEXT,
                reads=reads,
                answer=notified,
                example=Notified("anna", [Window(1_767_297_600_000, 1_767_297_600_000 + SIZE_MS, 2)], None),
                query=Page,
            ),
        ),
        emits={NOTIFICATIONS: Derived(TEXT, str), NOTIFICATION_WINDOWS: Derived(TEXT, WindowUpdate)},
    )
