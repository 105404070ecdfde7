"""Settings of topics: the kept state of each topic."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streamstate.settings import Settings

_YEARS_MS = 10 * 366 * 24 * 3_600_000


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RangeIndex(_Strict):
    """The records of a key by time."""

    retention_ms: int = Field(gt=0, le=_YEARS_MS, description="how long a record is kept, by stream time")


class WindowIndex(_Strict):
    """Count, least, most and sum of a number, in windows: tumbling, or hopping when `advance_ms` is given."""

    field: str = Field(min_length=1, description="member of the JSON value that holds the number")
    size_ms: int = Field(gt=0, le=_YEARS_MS, description="how long a window is")
    advance_ms: int = Field(default=0, ge=0, description="from one start to the next, `size_ms` when 0")
    grace_ms: int = Field(default=0, ge=0, le=_YEARS_MS, description="how long after its end a window takes records")
    retention_ms: int = Field(gt=0, le=_YEARS_MS, description="how long after its start a window is kept")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.advance_ms > self.size_ms or self.size_ms > 1_000 * (self.advance_ms or self.size_ms):
            msg = "advance_ms must be from a thousandth of size_ms to size_ms"
            raise ValueError(msg)
        if self.retention_ms < self.size_ms + self.grace_ms:
            msg = "retention_ms must be at least size_ms + grace_ms"
            raise ValueError(msg)
        return self


class KeptTopic(_Strict):
    """A kept topic."""

    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="its name in Kafka")
    key: Literal["long", "int", "text", "uuid", "pair"] = Field(description="type of its keys")
    value: Literal["json", "text", "bytes"] = Field(description="type of its values; bytes are answered in base64")
    users: bool = Field(default=False, description="whether its keys are ids of users, whom an erasure removes")
    latest: bool = Field(default=True, description="whether the last value of each key is kept")
    keys: bool = Field(default=False, description="whether ranges of the keys that have a value are answered")
    range: RangeIndex | None = Field(default=None, description="whether and how long the history of each key is kept")
    windows: WindowIndex | None = Field(default=None, description="whether and how numbers are summed up in windows")

    @property
    def state(self) -> dict[str, str | bool]:
        """The members that determine the state of the same records, besides those of the windows."""
        named = {"key": self.key, "value": self.value, "latest": self.latest, "range": self.range is not None}
        # A state from before there were ranges of keys goes on as long as none are asked for.
        return named | ({"keys": True} if self.keys else {}) | ({"field": self.windows.field} if self.windows else {})

    @model_validator(mode="after")
    def _keeps_something(self) -> Self:
        if not (self.latest or self.range or self.windows):
            msg = "nothing is kept: set latest, range or windows"
            raise ValueError(msg)
        if self.keys and not self.latest:
            msg = "keys need the last values: set latest"
            raise ValueError(msg)
        if self.windows and self.value != "json":
            msg = "windows need values of the type json"
            raise ValueError(msg)
        return self


EXAMPLE = KeptTopic(
    topic="bookings",
    key="long",
    value="json",
    range=RangeIndex(retention_ms=7 * 24 * 3_600_000),
    windows=WindowIndex(field="amount", size_ms=3_600_000, retention_ms=7 * 24 * 3_600_000),
)


class KeptSettings(Settings):
    """Topics: stream and API alike."""

    kept: tuple[KeptTopic, ...] = Field((EXAMPLE,), min_length=1, description="topics, and what is kept of each")

    @model_validator(mode="after")
    def _once(self) -> Self:
        names = [kept.topic for kept in self.kept]
        if len(set(names)) < len(names):
            msg = "a topic is there more than once"
            raise ValueError(msg)
        return self
