"""Messages about closed users, and how many each user got: a filter, a stream-table join, and hopping windows."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from services.notifications.settings import DAY_MS, GraceSettings
from streamstate.app import App, Emit, Record
from streamstate.functions import HoppingWindows, Output, Page, State, Text, fold, outputs, source, view

OPEN, TICK = "open", "tick"
Viewing = Literal["Open", "Close", "Closed"]
CLOSED = ("Close", "Closed")
"""Both are the same state."""

MESSAGE = "You are not currently viewing Facebook."
MINUTE_MS = 60_000
SIZE_MS = 10 * MINUTE_MS


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


STATES = source(OPEN, Viewing, deletes=True)
# Ticks matter while windows are kept; a user stays closed until a record opens the user again.
TICKS = source(TICK, None, requires_beginning=False)
NOTIFICATIONS = Output("notifications", str)
NOTIFICATION_WINDOWS = Output("notification-windows", WindowUpdate)


def app(settings: GraceSettings) -> App:
    """The use case, with the grace of its windows in milliseconds."""

    class NotifiedUser(State, by=STATES, users=True):
        open = Text(loaded=True)
        windows = HoppingWindows(SIZE_MS, MINUTE_MS, retention=2 * DAY_MS, grace=settings.grace_ms)

    # The states come first at equal times.
    @fold(STATES, TICKS, version=2)
    def notify(record: Record[str, Any], user: NotifiedUser) -> Iterator[Emit]:
        """Each record of a closed user is a message: the closing itself, and every later tick."""
        if record.topic == OPEN:
            user.open.set(record.value)
        if user.open.value in CLOSED:
            yield NOTIFICATIONS.emit(record, MESSAGE)
            for window in user.windows.add(record):
                end = window.start + SIZE_MS
                yield NOTIFICATION_WINDOWS.emit(record, WindowUpdate(record.key, window.start, end, window.count))

    @view("/v1/notifications/<key>", Notified("anna", [Window(1_767_297_600_000, 1_767_298_200_000, 2)], None))
    def notifications(key: str, user: NotifiedUser, page: Page) -> Notified | None:
        """How many messages a user got, in windows of ten minutes that start every minute."""
        if (cut := user.windows.page(page)) is None:
            return None
        windows, following = cut
        return Notified(key, [Window(each.start, each.start + SIZE_MS, each.count) for each in windows], following)

    return App("notifications", (notify,), (notifications,), emits=outputs(NOTIFICATIONS, NOTIFICATION_WINDOWS))
