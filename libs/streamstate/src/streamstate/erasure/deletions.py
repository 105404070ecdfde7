"""The contents of the topic of deletions: the records of erased users to leave out, for a state that applied it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from streamstate.errors import BadKey
from streamstate.keys import KeyCodec

ALL = 2**63 - 1


class Bound(msgspec.Struct, frozen=True, rename="camel"):
    """The records of a topic with the key `key` before `offset`; `topic_id` is the topic's id."""

    topic_id: str
    key: bytes
    offset: int


class Input(msgspec.Struct, frozen=True, rename="camel"):
    """The records with the user in the value before `ends`, one offset for each partition of the topic `topic_id`."""

    topic_id: str
    ends: tuple[int, ...]


class DeletionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record of the topic of deletions: `user` is deleted from `partition` of the state of `service`.

    A request has the end offsets of the topics at the time of the request. A receipt replaces it, under the same record
    key: it has the state's offsets when it forgot the user, and the offset of the `request`.

    inputs: the topics that streams send again by user. Receipts of releases that do not know them have none.
    """

    user: str
    service: str
    partition: int
    bounds: dict[str, Bound]
    request: int | None = None
    inputs: dict[str, Input] = {}

    @property
    def key(self) -> bytes:
        # No id has a tab.
        return f"{self.user}\t{self.service}\t{self.partition}".encode()


class Asked(NamedTuple):
    """The deletion of a user from one partition of a state.

    request: the offset of the newest request. bounds: by topic, the records to leave out. receipt: the newest receipt.
    inputs: by topic, the records to leave out that have the user in the value.
    """

    user: str
    request: int
    bounds: Mapping[str, Bound]
    receipt: DeletionRecord | None
    inputs: Mapping[str, Input] = {}


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

    def records(self, before: int) -> Iterable[DeletionRecord]:
        """The deletions with request offsets before `before`."""
        if self.receipt and (self.receipt.request or 0) < before:
            yield self.receipt
        if self.request and self.request[0] < before:
            yield self.request[1]


class Deletions:
    """All deletions read so far. A state without an own deletion of a user follows other services' deletions."""

    def __init__(self) -> None:
        self._known: defaultdict[int, dict[str, dict[str, _Known]]] = defaultdict(dict)
        self._with_inputs: defaultdict[str, dict[tuple[str, int], _Known]] = defaultdict(dict)
        """By user, the deletions that concern all partitions."""

    def add(self, offset: int, deletion: DeletionRecord) -> None:
        """Take in the record at `offset`."""
        of_user = self._known[deletion.partition].setdefault(deletion.user, {})
        known = of_user.setdefault(deletion.service, _Known())
        known.add(offset, deletion)
        if deletion.inputs:
            self._with_inputs[deletion.user][deletion.service, deletion.partition] = known

    def for_user(self, user: str, service: str) -> list[tuple[int, Asked]]:
        """The deletions of one user from `service` itself, by partition."""
        places = [
            (partition, users[user][service])
            for partition, users in self._known.items()
            if service in users.get(user, {})
        ]
        return [(partition, _asked(user, [known], (), known.receipt, None, ALL)) for partition, known in places]

    def inputs(self, user: str) -> Iterator[Input]:
        """The bounds of topics with `user` in the values, of all deletions."""
        for known in self._with_inputs.get(user, {}).values():
            for record in known.records(ALL):
                yield from record.inputs.values()

    def asked(self, service: str, partition: int, topic_ids: Mapping[str, str], before: int = ALL) -> list[Asked]:
        """The deletions for `partition` of the state of `service` with request offsets before `before`.

        topic_ids: the ids of the state's topics; bounds of other topic ids are omitted.
        """
        asked = []
        for user in dict.fromkeys((*self._known[partition], *self._with_inputs)):
            services, anywhere = self._known[partition].get(user, {}), self._with_inputs.get(user, {})
            own = services.get(service)
            known = [own] if own else list(services.values())
            inputs = [each for (name, _), each in anywhere.items() if name == service] or list(anywhere.values())
            each = _asked(user, known, inputs, own.receipt if own else None, topic_ids, before)
            if each.bounds or each.inputs:
                asked.append(each)
        return sorted(asked, key=lambda each: each.request)


def _asked(
    user: str,
    known: Iterable[_Known],
    anywhere: Iterable[_Known],
    receipt: DeletionRecord | None,
    topic_ids: Mapping[str, str] | None,
    before: int,
) -> Asked:
    """The deletion with the bounds of `known`, and the inputs of `anywhere`."""
    bounds: dict[str, Bound] = {}
    inputs: dict[str, Input] = {}
    newest = [each.newest for each in known]

    def fits(topic: str, part: Bound | Input) -> bool:
        return topic_ids is None or topic_ids.get(topic) == part.topic_id

    for topic, bound in (item for each in known for given in each.records(before) for item in given.bounds.items()):
        if fits(topic, bound) and (topic not in bounds or bound.offset > bounds[topic].offset):
            bounds[topic] = bound
    for each in anywhere:
        for topic, given in (item for record in each.records(before) for item in record.inputs.items()):
            if fits(topic, given):
                ends = inputs[topic].ends if topic in inputs else ()
                pairs = zip_longest(ends, given.ends, fillvalue=0)
                inputs[topic] = Input(given.topic_id, tuple(max(pair) for pair in pairs))
                newest.append(each.newest)
    return Asked(user, max(newest, default=-1), bounds, receipt, inputs)


def erased(
    asked: Iterable[Asked], partition: int, rekeyed: Mapping[str, KeyCodec[Any]]
) -> dict[tuple[str, int], dict[bytes, int]]:
    """By topic and partition, the keys of erased users and the offsets before which their records do not count.

    rekeyed: the codecs of users in the values of topics. Of these topics, there are the keys for `partition`, and for
    all partitions by the topic's id, which markers have: a record that a stream sent again does not count either.
    """
    offsets: defaultdict[tuple[str, int], dict[bytes, int]] = defaultdict(dict)
    for each in asked:
        for topic, bound in each.bounds.items():
            offsets[topic, partition][bound.key] = bound.offset
        for topic, given in each.inputs.items():
            # Another service's user may be an invalid key here.
            with suppress(BadKey, KeyError):
                key = rekeyed[topic].encode(rekeyed[topic].parse(each.user))
                for number, end in enumerate(given.ends):
                    offsets[given.topic_id, number][key] = end
                    if number == partition:
                        offsets[topic, partition][key] = end
    return dict(offsets)
