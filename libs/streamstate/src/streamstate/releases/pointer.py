"""The key with the record of a service's releases, in the Redis of its state."""

from collections.abc import Callable

from redis.exceptions import NoPermissionError

from streamstate.errors import Declined
from streamstate.releases.record import Releases, Voice, decoded, encoded, voice
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import live_key

_NOW = "local time = redis.call('TIME') return tostring(time[1] + time[2] / 1000000)"

_REPLACE = """
local time = redis.call('TIME')
if ARGV[3] ~= '' and time[1] + time[2] / 1000000 > tonumber(ARGV[3]) then return 'late' end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 'other' end
redis.call('SET', KEYS[1], ARGV[2])
return 'stored'
"""


class Pointer:
    """The record of the releases of the service whose first release has the name `of`. Safe for threads."""

    def __init__(self, client: Client, of: str) -> None:
        self._client = client
        self._of = of
        self._key = live_key(of)
        self._text: bytes | None = None
        self._record: Releases | None = None

    def read(self) -> Releases | None:
        """The present record; None without releases beside the first, and for a user without rights to the key."""
        try:
            get: Callable[[str], bytes | None] = self._client.get  # type: ignore[assignment]
            text = get(self._key)
        except NoPermissionError:
            return None
        if text != self._text:
            self._text, self._record = text, decoded(text)
        return self._record

    def voice(self, release: str) -> Voice:
        """The outputs of `release` at present. Raises `Misconfigured` for a release that is not staged."""
        return voice(self.read(), release, self._of)

    def now(self) -> float:
        """The time of Redis, in seconds since 1970."""
        return float(self._evaluate(_NOW))

    def replace(self, before: Releases | None, after: Releases, by: float | None = None) -> bool:
        """Store `after`, if the record is `before`; false, with nothing stored, later than the time `by` of Redis.

        Raises `Declined` when another command was faster.
        """
        old = b"" if before is None else encoded(before)
        answer = self._evaluate(_REPLACE, old, encoded(after), "" if by is None else str(by))
        if answer == b"other":
            msg = "another command changed the releases meanwhile; look at `streamstate releases`, and say it again"
            raise Declined(msg)
        return answer == b"stored"

    def _evaluate(self, script: str, *arguments: bytes | str) -> bytes:
        evaluate: Callable[..., bytes] = self._client.eval
        return evaluate(script, 1, self._key, *arguments)
