"""The key with the record of a service's releases, in the Redis of its state."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from redis.exceptions import NoPermissionError

from streamstate.errors import Declined
from streamstate.releases.record import (
    Place,
    Publishing,
    Releases,
    cancelled,
    completed,
    decoded,
    encoded,
    publishing,
    require_kept,
)
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import live_key
from streamstate.state.store import Store, positions_of, whole

HELD_S = 3.0
"""Seconds after which a hand-over that goes on is undone: its command was killed."""

LONG_S = 10.0
"""Seconds after which it is told that a release waits for another one's outputs."""

PAUSE_S = 0.02

_REPLACE = """
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""


class Pointer:
    """The record of the releases of the service whose first release has the name `of`. Safe for threads."""

    def __init__(self, client: Client, of: str) -> None:
        self._client = client
        self._of = of
        self._key = live_key(of)
        self._text: bytes | None = None
        self._record: Releases | None = None
        self._waiting = 0, 0.0

    def read(self) -> Releases | None:
        """The present record; None without releases beside the first, and for a user without rights to the key.

        Raises `Misconfigured` for a record of an earlier version.
        """
        text = self.text()
        if text != self._text:
            self._text, self._record = text, decoded(text)
        return self._record

    def text(self) -> bytes | None:
        """The stored record, of any version."""
        get: Callable[[str], bytes | None] = self._client.get  # type: ignore[assignment]
        with suppress(NoPermissionError):
            return get(self._key)
        return None

    def settled(self) -> Releases | None:
        """The record outside of hand-overs: waits for the end of a hand-over, and undoes one that has no end."""
        number, since = 0, time.monotonic()
        while (record := self.read()) and record.successor:
            if record.number != number:
                number, since = record.number, time.monotonic()
            if time.monotonic() - since > HELD_S:
                with suppress(Declined):
                    self.replace(record, cancelled(record))
            time.sleep(PAUSE_S)
        return record

    def publishing(self, release: str) -> Publishing:
        """The outputs of `release` at present. Raises `Misconfigured` for a release that is not staged."""
        return publishing(self.read(), release, self._of)

    def may_publish(self, release: str) -> Publishing:
        """The same, when `release` may publish: waits for the outputs of the release before it.

        Raises `Misconfigured` for a record that was lost after the last read.
        """
        number = self._record.number if self._record else 0
        while (now := publishing(self.settled(), release, self._of)).waits:
            time.sleep(PAUSE_S)
        require_kept(now.record, number, self._of)
        return now

    def hand_over(self, release: str, store: Store) -> str:
        """Complete the hand-over in which `release`, whose state is in `store`, has published its last outputs.

        Returns why `release` has not been allowed to publish for long, empty when it may.
        """
        now = self.publishing(release)
        if now.record and now.record.former == release:
            self.owed(now.record, store)
        if not now.waits or self._waiting[0] != now.number:
            self._waiting = now.number, time.monotonic()
        return now.waits if time.monotonic() - self._waiting[1] > LONG_S else ""

    def owed(self, record: Releases, store: Store) -> Mapping[Place, int]:
        """What the former publisher, whose state is in `store`, has still to publish; if nothing, it is completed."""
        owed = record.owes(record.former, _reached(store, record))
        if not owed:
            # Another process may be faster.
            with suppress(Declined):
                self.replace(record, completed(record))
        return owed

    def require_kept(self, number: int) -> None:
        """Raise `Misconfigured` for a lost record: a state was written by the record of this number."""
        require_kept(self.read(), number, self._of)

    def replace(self, before: Releases | None, after: Releases) -> None:
        """Store `after`, if the record is `before`. Raises `Declined` when another process was faster."""
        self.replace_text(b"" if before is None else encoded(before), after)

    def replace_text(self, before: bytes, after: Releases) -> None:
        """As `replace`, of a stored record of any version, empty without one."""
        evaluate: Callable[..., int] = self._client.eval
        if not evaluate(_REPLACE, 1, self._key, before, encoded(after)):
            msg = "another command changed the releases meanwhile; look at `streamstate releases`, and say it again"
            raise Declined(msg)


def _reached(store: Store, record: Releases) -> dict[Place, int]:
    """The positions of the state in `store` at the cuts; a partition with half a commit has none."""
    partitions = {partition for of_topic in record.cuts.values() for partition in of_topic}
    return positions_of(whole(store, partitions)[0])
