"""The presence of an instance among the members of its stream's group: all of them use one Redis."""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import NamedTuple

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Member, Topics, status_name
from streamstate.state.redis import RedisStore, elsewhere

REPORT_S = 2.0
"""Seconds between an instance's status reports to Redis."""

MEMBERS_S = 10.0
"""Seconds between two checks of the group's members."""

MISSING_CHECKS = 3
"""Checks in a row without a member's report: a member may have just started, or Redis be just back."""

SESSIONS = 3
"""A member that the group keeps for as many sessions is alive."""


class Stranger(NamedTuple):
    """A member of the group without a status in this Redis: the times (monotonic seconds) of first and last sight."""

    named: str
    since: float
    seen: float


@dataclass
class Presence:
    """An instance among the members of its stream's group. `update` is called in a thread of its own.

    redis: the URL of the Redis with its status. address: of its API. trouble: why it does not fold, empty when it does.
    session_ms: how long the group keeps the partitions of a silent instance. process: the random name of its process.
    """

    store: RedisStore
    redis: str
    topics: Topics
    group: str
    instance: str
    address: str
    session_ms: int
    trouble: Callable[[], str]
    process: str = field(default_factory=lambda: token_hex(4))
    _checked_at: float = field(default_factory=time.monotonic)
    _missing: Mapping[str, int] = field(default_factory=dict)
    _strangers: Mapping[str, Stranger] = field(default_factory=dict)

    def report(self) -> None:
        """Store the trouble in Redis, unless Redis is away."""
        with suppress(RedisError):
            trouble = self._report()
            if trouble:
                self.store.report_trouble(self.address, trouble, round(3 * REPORT_S * 1_000))

    def _report(self) -> str:
        trouble = self.trouble()
        self.store.report_trouble(
            status_name(self.instance, self.process), trouble, self.session_ms + round(MEMBERS_S * 1_000)
        )
        return trouble

    def update(self) -> None:
        """Report the trouble, and periodically check the group for members without a report in this Redis."""
        self.report()
        # Other calls report a server that does not answer; to ask it would delay the next report.
        with suppress(KafkaException, RedisError):
            if time.monotonic() >= self._checked_at + MEMBERS_S and not self.topics.silence:
                self._checked_at = time.monotonic()
                silent = (_named(*each) for each in self._silent(self.topics.members(self.group)).items())
                self._missing = {member: self._missing.get(member, 0) + 1 for member in silent}

    def require_one_redis(self) -> None:
        """Raise `Misconfigured` when members of the group use another Redis: each would have a part of the state."""
        self._refuse([member for member, checks in self._missing.items() if checks >= MISSING_CHECKS])

    def require_free_group(self) -> None:
        """Raise `Misconfigured`, before this instance joins, when the group is the group of another environment.

        The members of the group go on undisturbed. Refused by living members, this instance does not take their
        partitions while they are stopped: only a start of the process asks again. Raises `RedisError` where no member
        could report, and `KafkaException`.
        """
        members = self.topics.members(self.group)
        self._succeed(members.get(self.instance))
        self._report()
        now = time.monotonic()
        for instance, member in self._silent(members).items():
            known = self._strangers.get(member.status)
            seen = Stranger(_named(instance, member), known.since if known else now, now)
            self._strangers = {**self._strangers, member.status: seen}
        # A killed member of this Redis is in the group until its session ends.
        living_s = SESSIONS * self.session_ms / 1_000
        found = self.store.troubles({status: status for status in self._strangers})
        self._strangers = {
            status: each
            for status, each in self._strangers.items()
            if found[status] is None and (each.seen == now or each.seen - each.since > living_s)
        }
        self._refuse([each.named for each in self._strangers.values()])

    def _succeed(self, before: Member | None) -> None:
        """Take the name of the process `before`, whose status is in this Redis and whose session has not ended.

        Kafka keeps the client id of a static member that comes back.
        """
        if before and before.status and self.store.troubles({self.instance: before.status})[self.instance] is not None:
            self.process = before.status.removeprefix(self.instance).removeprefix(":")

    def _silent(self, members: Mapping[str, Member]) -> dict[str, Member]:
        """The members of the group without a status in this Redis, by instance."""
        troubles = self.store.troubles(statuses(members))
        return {instance: members[instance] for instance, trouble in troubles.items() if trouble is None}

    def _refuse(self, members: Collection[str]) -> None:
        if members:
            raise Misconfigured(elsewhere(members, self.group, self.redis))


def _named(instance: str, member: Member) -> str:
    return f"{instance} ({member.host})"


def statuses(members: Mapping[str, Member]) -> dict[str, str]:
    """The names of statuses in Redis, by instance, of the members that report any."""
    return {instance: member.status for instance, member in members.items() if member.status}
