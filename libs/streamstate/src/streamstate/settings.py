"""Settings of every process, from the environment.

Precedence: 1. an argument given in code, 2. the variable `STREAMSTATE_<NAME>`, 3. the default written here.
The reference of the settings and the schemas of the charts are generated from the settings classes of library and
services.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, FilePath, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsError

from streamstate.deployment.address import ADDRESS
from streamstate.deployment.connections import PREFIX as PREFIX  # noqa: PLC0414, with `Settings`, what services import
from streamstate.deployment.connections import (
    REDIS_URL,
    SENTINELS_URL,
    HttpSettings,
    KafkaSettings,
    RedisSettings,
    RedisUrl,
    RegistrySettings,
    StatusSettings,
)
from streamstate.deployment.connections import Settings as Settings  # noqa: PLC0414
from streamstate.deployment.overrides import EventTimeSettings
from streamstate.errors import Misconfigured
from streamstate.formats.format import Format

LEAST_STALENESS_MS = 100
_CLOCK_SKEW_MS = 10_000
"""Tolerated clock difference between machines, in milliseconds."""


class ServiceSettings(KafkaSettings, RedisSettings, RegistrySettings, EventTimeSettings):
    """A service: stream and API alike."""

    redis: RedisUrl = Field(
        "redis://127.0.0.1:6379/0",
        pattern=REDIS_URL,
        description="URL of Redis or Valkey: redis://host:port/db, redis+cluster://host:port,host:port, "
        "redis+sentinel://host:port,host:port/master/db; rediss… for TLS",
    )
    advertise: str = Field(
        "127.0.0.1:8101",
        pattern=ADDRESS,
        description="host:port of this instance's API for instances and gateway",
    )
    name: str = Field(
        "",
        pattern=r"^[a-z0-9-]*$",
        description="deployment name: Redis prefix, metric label, consumer group; empty: the service's name",
    )
    release_of: str = Field(
        "",
        pattern=r"^[a-z0-9-]*$",
        description="NAME of the service's first release, for a staged release; empty: NAME",
    )
    group: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]*$",
        description="consumer group, and prefix of other groups and transactional ids; empty: NAME",
    )
    topics: dict[str, str] = Field(
        {},
        description='other topic names by the service\'s own names, also of dead letters: {"listening-events":'
        ' "events-eu"}',
    )
    formats: dict[str, Format] = Field(
        {},
        description='formats by topic (the service\'s own name), or by * for all: {"listening-events": '
        '{"value": "avro"}}',
    )
    deletions: str = Field(
        "user-deletions",
        pattern=r"^[A-Za-z0-9._-]{0,249}$",
        description="compacted topic of all services' deletions; empty: none",
    )
    truncated_topics: tuple[str, ...] = Field(
        (),
        description='topics that may lack their first records: ["listening-events"]; answers then carry State-Begin',
    )


class CommandSettings(ServiceSettings):
    """The command `streamstate`."""

    package: str = Field("services", min_length=1, description="Python package of the services, or of a single service")
    redis_timeout_s: float = Field(10.0, gt=0, description="timeout of Redis")
    releases: Path | None = Field(None, description="file of staged releases, for the gateway")


class UserSettings(Settings):
    """The commands of `streamstate` that call the gateway."""

    gateway: str = Field(
        "http://127.0.0.1:8080", pattern=r"^https?://[^/\s]+/?$", description="gateway's address: http://host:port"
    )
    gateway_key: SecretStr = Field(SecretStr(""), description="API key or token")


class StreamSettings(ServiceSettings, StatusSettings):
    """A stream: a Spark driver for one or several services."""

    instance: str = Field("stream-0", description="static member of the consumer group, kept over restarts")
    slots: int = Field(2, ge=1, le=64, description="parallel Spark tasks")
    trigger_ms: int = Field(
        100,
        ge=0,
        le=60_000,
        description="least time between starts of micro-batches; more saves CPU, but delays events",
    )
    batch_records: int = Field(
        400_000,
        ge=1_000,
        description="maximal records of an instance's micro-batch; merges and table lookups hold all in memory",
    )
    commit_records: int = Field(
        60_000,
        ge=100,
        le=100_000,
        description="maximal records of a build's commit; blocks Redis for 0.5 s at 60000, 0.03 s at 1000 (twice "
        "the CPU)",
    )
    build_rate: int | None = Field(
        None,
        ge=0,
        description="maximal records a second of a build over all instances; 0 waits for `streamstate throttle`; "
        "empty: no bound",
    )
    session_timeout_ms: int = Field(
        10_000,
        ge=6_000,
        description="time without a heartbeat before reassignment of partitions",
    )
    redis_timeout_s: float = Field(10.0, gt=0, description="timeout of Redis")
    lost_records: Literal["stop", "skip"] = Field(
        "stop",
        description="at unread records deleted by Kafka: stop, or skip and count",
    )
    dead_letters: int = Field(
        100, ge=0, description="dead letters in a process's last 10,000 records that never stop the stream"
    )
    dead_letter_share: float = Field(
        0.1,
        ge=0,
        le=1,
        description="maximal share of dead letters beyond DEAD_LETTERS; more stop the stream. 1: never",
    )
    future_ms: int | None = Field(
        None,
        ge=0,
        description="a record further ahead of the clock is a dead letter, without message.timestamp.after.max.ms; "
        "empty: the grace of windows, at least 10,000, or 3,600,000",
    )
    users_expire_ms: int = Field(
        0,
        ge=0,
        description="stream time before an unseen user is deleted. 0: never",
    )
    jars: Path = Field(Path("/opt/streamstate/jars"), description="folder of the jars of Spark's Kafka source")
    checkpoints: Path = Field(
        Path("/dev/shm/streamstate"),  # noqa: S108, a folder of its own is made in it
        description="folder for Spark's disposable checkpoints, best in memory",
    )
    master: str = Field("", description="Spark master; empty: local[SLOTS]")
    spark: dict[str, str] = Field({}, description='further Spark properties: {"spark.executor.cores": "2"}')
    spark_secret: FilePath | None = Field(
        None,
        description="file of the secret of driver and executors, the same in all pods of an instance; empty: visible "
        "in descriptions of pods",
    )
    driver_memory: str = Field("1g", pattern="^[0-9]+[mgMG]$", description="heap of the Spark driver, at least 512m")

    def tolerance_ms(self, grace_ms: str | int | None) -> int:
        """The tolerated milliseconds of a timestamp ahead of the clock, in a topic of windows with `grace_ms`."""
        if self.future_ms is not None:
            return self.future_ms
        return 3_600_000 if grace_ms is None else max(int(grace_ms), _CLOCK_SKEW_MS)

    def read_records(self, *, in_memory: bool) -> int:
        """The most records of a backlog read at a time; in memory, half a batch, which leaves room for new records."""
        return self.batch_records // 2 if in_memory else self.batch_records


class DemandSettings(Settings):
    """Requests with consistency headers: every API."""

    demands_waiting: int = Field(256, ge=0, description="requests waiting for a fresher state; beyond: 503")
    least_staleness_ms: int = Field(LEAST_STALENESS_MS, ge=0, le=10_000, description="least accepted X-Max-Staleness")


class ApiSettings(ServiceSettings, HttpSettings, DemandSettings):
    """An API."""

    redis_timeout_s: float = Field(1.0, gt=0, description="timeout of Redis")
    redis_replicas: bool = Field(
        default=False,
        description="read a replica of the Sentinels, else the primary; answers may be behind",
    )

    @model_validator(mode="after")
    def _replicas_are_of_sentinels(self) -> Self:
        if self.redis_replicas and not re.fullmatch(SENTINELS_URL, self.redis):
            msg = "set REDIS_REPLICAS only where REDIS names Sentinels; replicas of a cluster are not read"
            raise ValueError(msg)
        return self


S = TypeVar("S", bound=BaseSettings)


def load(kind: type[S]) -> S:
    """The settings of this process; raises `Misconfigured` with the name of each invalid variable, and the reason."""
    prefix = kind.model_config.get("env_prefix", "")
    try:
        return kind()
    except ValidationError as error:
        wrong = [f"{prefix}{_place(*e['loc'])} ({_reason(kind, e)})" for e in error.errors()]
        raise _misconfigured(wrong) from error
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = f"{prefix}{field[1].upper()}" if field else str(error)
        raise _misconfigured([f"{name} (not valid JSON)"]) from error


def require_known(environment: Mapping[str, str]) -> None:
    """Raise `Misconfigured` for a prefixed variable unknown to all settings classes, with the nearest known name."""
    known = [f"{PREFIX}{field.upper()}" for kind in kinds() for field in kind.model_fields]
    names = [name for name in environment if name.upper().startswith(PREFIX) and name.upper() not in known]
    if names:
        nearest = {name: get_close_matches(name.upper(), known, n=1, cutoff=0)[0] for name in names}
        raise _misconfigured([f"{name} (unknown; did you mean {nearest[name]}?)" for name in names])


def kinds(base: type[Settings] = Settings) -> Iterator[type[Settings]]:
    """All imported settings classes, including the classes of services."""
    for kind in base.__subclasses__():
        yield kind
        yield from kinds(kind)


def _misconfigured(wrong: list[str]) -> Misconfigured:
    return Misconfigured(f"change the environment: {'; '.join(wrong)}")


def _reason(kind: type[BaseSettings], error: ErrorDetails) -> str:
    """Why pydantic refuses a value: in place of a regular expression its characters, or what the reference says."""
    field = kind.model_fields.get(str(next(iter(error["loc"]), "")))
    if field is None or error["type"] != "string_pattern_mismatch":
        return error["msg"]
    characters = _CHARACTERS.fullmatch(error["ctx"]["pattern"])
    return f"takes only the characters {characters[1]}" if characters else f"give the {field.description}"


_CHARACTERS = re.compile(r"\^\[([^\]^\\]+)\](?:[*+]|\{\d+,\d+\})\$")
"""A regular expression of some characters."""


def _place(variable: str | int = "*", *within: str | int) -> str:
    """A variable, and the place in its JSON."""
    return ".".join(map(str, (str(variable).upper(), *within)))
