"""The contents of the topic of deletions: the records of erased users to leave out, for a state that applied it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

ALL = 2**63 - 1


class Bound(msgspec.Struct, frozen=True, rename="camel"):
    """The records of a topic with the key `key` before `offset`; `topic_id` is the topic's id."""

    topic_id: str
    key: bytes
    offset: int


class DeletionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record of the topic of deletions: `user` is deleted from `partition` of the state of `service`.

    A request has the end offsets of the topics at the time of the request. A receipt replaces it, under the same record
    key: it has the state's offsets when it forgot the user, and the offset of the `request`.
    """

    user: str
    service: str
    partition: int
    bounds: dict[str, Bound]
    request: int | None = None

    @property
    def key(self) -> bytes:
        # No id has a tab.
        return f"{self.user}\t{self.service}\t{self.partition}".encode()


class Asked(NamedTuple):
    """The deletion of a user from one partition of a state.

    request: the offset of the newest request. bounds: by topic, the records to leave out. receipt: the newest receipt.
    """

    user: str
    request: int
    bounds: Mapping[str, Bound]
    receipt: DeletionRecord | None


@dataclass
class _Known:
    """The newest receipt and the newest request after it, with its offset."""

    receipt: DeletionRecord | None = None
    request: tuple[int, DeletionRecord] | None = None

    def add(self, offset: int, deletion: DeletionRecord) -> None:
        if deletion.request is None:
            self.request = offset, deletion
            return
        self.receipt = deletion
        if self.request and self.request[0] <= deletion.request:
            self.request = None

    @property
    def newest(self) -> int:
        answered = -1 if self.receipt is None else self.receipt.request or 0
        return max(answered, self.request[0] if self.request else -1)

    def bounds(self, before: int) -> Iterable[Mapping[str, Bound]]:
        """The bounds of the deletions with request offsets before `before`."""
        if self.receipt and (self.receipt.request or 0) < before:
            yield self.receipt.bounds
        if self.request and self.request[0] < before:
            yield self.request[1].bounds


class Deletions:
    """All deletions read so far. A state without an own deletion of a user follows other services' deletions."""

    def __init__(self) -> None:
        self._known: defaultdict[int, dict[str, dict[str, _Known]]] = defaultdict(dict)

    def add(self, offset: int, deletion: DeletionRecord) -> None:
        """Take in the record at `offset`."""
        of_user = self._known[deletion.partition].setdefault(deletion.user, {})
        of_user.setdefault(deletion.service, _Known()).add(offset, deletion)

    def for_user(self, user: str, service: str) -> list[tuple[int, Asked]]:
        """The deletions of one user from `service` itself, by partition."""
        places = [
            (partition, users[user][service])
            for partition, users in self._known.items()
            if service in users.get(user, {})
        ]
        return [(partition, _asked(user, [known], known.receipt, None, ALL)) for partition, known in places]

    def asked(self, service: str, partition: int, topic_ids: Mapping[str, str], before: int = ALL) -> list[Asked]:
        """The deletions for `partition` of the state of `service` with request offsets before `before`.

        topic_ids: the ids of the state's topics; bounds of other topic ids are omitted.
        """
        asked = []
        for user, services in self._known[partition].items():
            own = services.get(service)
            known = [own] if own else list(services.values())
            each = _asked(user, known, own.receipt if own else None, topic_ids, before)
            if each.bounds:
                asked.append(each)
        return sorted(asked, key=lambda each: each.request)


def _asked(
    user: str, known: Iterable[_Known], receipt: DeletionRecord | None, topic_ids: Mapping[str, str] | None, before: int
) -> Asked:
    bounds: dict[str, Bound] = {}
    for topic, bound in (item for each in known for given in each.bounds(before) for item in given.items()):
        fits = topic_ids is None or topic_ids.get(topic) == bound.topic_id
        if fits and (topic not in bounds or bound.offset > bounds[topic].offset):
            bounds[topic] = bound
    return Asked(user, max(each.newest for each in known), bounds, receipt)


def erased(asked: Iterable[Asked], partition: int) -> dict[tuple[str, int], dict[bytes, int]]:
    """By topic and partition, the keys of erased users and the offsets before which their records do not count."""
    offsets: defaultdict[tuple[str, int], dict[bytes, int]] = defaultdict(dict)
    for each in asked:
        for topic, bound in each.bounds.items():
            offsets[topic, partition][bound.key] = bound.offset
    return dict(offsets)
