"""Metadata of topics: ids, partition counts, offsets."""

import math
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import NamedTuple

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ListOffsetsResultInfo,
    MemberDescription,
    OffsetSpec,
    TopicDescription,
)

from streamstate.errors import Misconfigured
from streamstate.kafka.elections import answered, elected, is_silent, of_group
from streamstate.kafka.security import OPEN, Properties, Security
from streamstate.state.store import Origin

TIMEOUT_S = 10.0

SILENT_S = 5.0
"""Seconds of unanswered questions after which Kafka counts as silent: longer than an election, or a busy moment."""

SILENT_PAUSE_S = 1.0
"""Seconds between two questions to a silent Kafka."""


class Silence(NamedTuple):
    """Kafka has not answered since the time `since` (seconds since 1970), for the client's `reason`."""

    since: float
    reason: str

    @property
    def moment(self) -> str:
        """The time, as of ISO 8601."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since))


class AdminConnection:
    """An admin client that follows changes of the files in `security`. `properties` suit further clients.

    loaded: the last usable contents of the files.
    """

    def __init__(self, bootstrap: str, security: Security) -> None:
        """Raises `Misconfigured` when a file cannot be used."""
        self._bootstrap = bootstrap
        self._security = security
        try:
            self.loaded = security.read_files()
            self._admin = self._former = self._made(self.loaded)
        except KafkaException as error:
            given = f"credentials of AWS in {security.region}" if security.region else "files of KAFKA_PASSWORD"
            msg = f"the {given}, KAFKA_CA, _CERTIFICATE and _KEY cannot be used: {error}"
            raise Misconfigured(msg) from error

    @property
    def properties(self) -> Properties:
        return {"bootstrap.servers": self._bootstrap, **self.loaded.client()}

    def admin(self) -> AdminClient:
        """The client, replaced after a change of the files. Unusable or incomplete files leave the former client."""
        with suppress(Misconfigured, KafkaException):
            if (now := self._security.read_files()) != self.loaded:
                # Calls that wait for an answer keep the former client alive.
                self._admin, self._former = self._made(now), self._admin
                self.loaded = now
        return self._admin

    def _made(self, now: Security) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, **now.client()})


REPORTING = "streamstate"
"""The client id of reporting group members of earlier releases; of others, the process's random name follows."""


class Member(NamedTuple):
    """An instance in a consumer group: its assigned partitions.

    status: the name of its status in Redis; empty for a client that reports none. host: its address, as seen by Kafka.
    """

    partitions: frozenset[int]
    status: str = ""
    host: str = ""


def client_id(process: str) -> str:
    """The client id of a group's member whose process has this random name."""
    return f"{REPORTING}:{process}" if process else REPORTING


def status_name(instance: str, process: str) -> str:
    """The name of the status in Redis of an instance's process."""
    return f"{instance}:{process}" if process else instance


class Topics:
    """Partition counts and ids of topics from Kafka, cached for `ttl` seconds. Safe for threads."""

    _silence: Silence | None = None
    """Of all questions since the last answer."""

    def __init__(self, bootstrap: str, ttl: float = 20.0, security: Security = OPEN) -> None:
        self.bootstrap = bootstrap
        self._connection = AdminConnection(bootstrap, security)
        self._ttl = ttl
        self._known: dict[str, tuple[float, Origin]] = {}
        self._asking = threading.Lock()

    @property
    def security(self) -> Security:
        """The current credentials, as texts."""
        self._connection.admin()
        return self._connection.loaded

    def partitions(self, topic: str) -> int:
        """The partition count of `topic`. Raises `Misconfigured` for a topic that does not exist.

        While Kafka is away, a cached count stays in use: partition counts never shrink.
        """
        return self.origin(topic).partitions

    def origin(self, topic: str) -> Origin:
        """The id and the partition count of `topic`. Raises as `partitions` does.

        Only the first call waits for Kafka: later calls return the cached value and refresh an old value meanwhile.
        """
        cached = self._known.get(topic)
        if cached is None:
            cached = self._known[topic] = (time.monotonic(), self.describe([topic])[topic])
        read_at, known = cached
        ttl = SILENT_PAUSE_S if self._silence else self._ttl
        if time.monotonic() - read_at >= ttl and self._asking.acquire(blocking=False):
            threading.Thread(target=self._ask_again, args=(topic, read_at, known), daemon=True).start()
        return known

    def describe(self, topics: Collection[str], timeout: float = TIMEOUT_S) -> dict[str, Origin]:
        """The ids and partition counts of `topics`, read from Kafka at once. Raises as `partitions` does."""
        with self._asks():
            asked = self._connection.admin().describe_topics(TopicCollection([*topics]), request_timeout=timeout)
            return {topic: _origin(topic, asked[topic]) for topic in topics}

    @property
    def silence(self) -> Silence | None:
        """The present silence of Kafka, None while Kafka answers. Only the other calls notice a silence, or its end."""
        silence = self._silence
        return silence if silence and time.time() - silence.since > SILENT_S else None

    @property
    def trouble(self) -> str:
        """Since when and why Kafka has not answered, and what to check; empty while Kafka answers."""
        if (silence := self.silence) is None:
            return ""
        what = "check that it runs and has disk space"
        return f"Kafka at {self.bootstrap} has not answered since {silence.moment} ({silence.reason}); {what}"

    @contextmanager
    def _asks(self) -> Iterator[None]:
        """Remember whether Kafka answers the questions of the body."""
        started = time.time()
        try:
            yield
        except KafkaException as error:
            if is_silent(error):
                self._silence = self._silence or Silence(started, error.args[0].str())
            raise
        self._silence = None

    def known(self, topic: str) -> Origin | None:
        """The cached id and partition count of `topic`, None when there are none; never waits for Kafka."""
        cached = self._known.get(topic)
        return None if cached is None else cached[1]

    def _ask_again(self, topic: str, read_at: float, known: Origin) -> None:
        try:
            self._known[topic] = (time.monotonic(), self.describe([topic], 1.0)[topic])
        except KafkaException:
            self._known[topic] = (time.monotonic(), known)
        except Misconfigured:
            # A starting broker knows no topics; believe a broker that goes on like this.
            if time.monotonic() - read_at > 2 * self._ttl:
                self._known.pop(topic)
        finally:
            self._asking.release()

    def settings(self, topics: Collection[str]) -> dict[str, Mapping[str, str]]:
        """The settings of the `topics` that exist, by name; none of a topic whose settings may not be read."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        asked = self._connection.admin().describe_configs(resources, request_timeout=TIMEOUT_S) if resources else {}
        found: dict[str, Mapping[str, str]] = {}
        for resource, answer in asked.items():
            try:
                found[resource.name] = {name: entry.value or "" for name, entry in answer.result().items()}
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found[resource.name] = {}
        return found

    def widest(self, topics: Iterable[str]) -> int:
        """The partition count of the widest of `topics`, and so of an app over them."""
        return max(map(self.partitions, topics))

    def begins(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The log start offsets of (topic, partition)."""
        return _offsets(self._listed(places, OffsetSpec.earliest()))  # type: ignore[no-untyped-call]  # it has no annotations

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The last stable offsets of (topic, partition): uncommitted records cannot be read."""
        return _offsets(self._listed(places, OffsetSpec.latest()))  # type: ignore[no-untyped-call]  # it has no annotations

    def high_watermarks(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The ends of (topic, partition) with the records of open transactions, which cannot be read yet."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # it has no annotations
        return _offsets(self._listed(places, latest, IsolationLevel.READ_UNCOMMITTED))

    def offsets_at(self, places: Iterable[tuple[str, int]], timestamp: int) -> dict[tuple[str, int], int]:
        """The first offsets, of (topic, partition), at `timestamp` (milliseconds) or later; -1 where there is none."""
        return _offsets(self._listed(places, OffsetSpec.for_timestamp(timestamp)))

    def history(self, places: Iterable[tuple[str, int]]) -> dict[str, float]:
        """The seconds until Kafka may delete a topic's first record, by `retention.ms`; 0 where it has deleted some.

        `places` are (topic, partition). Infinite without a time limit. Topics whose configuration may not be read are
        omitted.
        """
        all_places = [*places]
        limits = self.retention_ms({topic for topic, _ in all_places})
        limited = [place for place in all_places if place[0] in limits]
        # An empty topic has its first record yet to come.
        ages, now_ms = dict.fromkeys(limits, 0.0), time.time() * 1_000
        for place, timestamp in self._first_timestamps(limited).items():
            ages[place[0]] = max(ages[place[0]], now_ms - timestamp)
        cut = {topic for (topic, _), begin in self.begins(limited).items() if begin}
        return {topic: 0.0 if topic in cut else max(0.0, (limits[topic] - ages[topic]) / 1_000) for topic in limits}

    def compacted(self, topics: Collection[str]) -> list[str]:
        """The topics among `topics` that Kafka compacts. Topics whose settings may not be read are omitted."""
        return [topic for topic, of in self.settings(topics).items() if "compact" in of.get("cleanup.policy", "")]

    def retention_ms(self, topics: Collection[str]) -> dict[str, float]:
        """The `retention.ms` of `topics`, infinite where records are not deleted after a time."""
        found: dict[str, float] = {}
        for topic, of in self.settings(topics).items():
            if of:
                limit = int(of["retention.ms"] or -1)
                found[topic] = limit if limit >= 0 and "delete" in of["cleanup.policy"] else math.inf
        return found

    def _first_timestamps(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The timestamps (milliseconds) of the first records of (topic, partition), where there are records."""
        found = self._listed(places, OffsetSpec.for_timestamp(0))
        return {place: at.timestamp for place, at in found.items() if at.offset >= 0}

    def timestamps(self, places: Sequence[tuple[str, int]]) -> list[int]:
        """The timestamps (milliseconds) of the first records, and of the latest, of (topic, partition) with records."""
        latest = self._listed(places, OffsetSpec.max_timestamp()).values()  # type: ignore[no-untyped-call]
        return [*self._first_timestamps(places).values(), *(at.timestamp for at in latest if at.offset >= 0)]

    def members(self, group: str) -> dict[str, Member]:
        """The instances in the consumer group `group`; none where no stream runs."""
        describe = self._connection.admin().describe_consumer_groups
        group_of = of_group(lambda: describe([group], request_timeout=TIMEOUT_S)[group], TIMEOUT_S)
        return {m.group_instance_id: _member(m) for m in group_of.members} if group_of else {}

    def delete_group(self, group: str) -> None:
        """Delete a consumer group without members, if it exists."""
        delete = self._connection.admin().delete_consumer_groups
        of_group(lambda: delete([group], request_timeout=TIMEOUT_S)[group], TIMEOUT_S)

    def _listed(
        self,
        places: Iterable[tuple[str, int]],
        of: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[tuple[str, int], ListOffsetsResultInfo]:
        places = [*places]
        specs = {TopicPartition(*place): of for place in places}
        if not specs:
            return {}
        list_offsets = self._connection.admin().list_offsets

        def listed() -> dict[tuple[str, int], ListOffsetsResultInfo]:
            answers = list_offsets(specs, isolation_level=isolation, request_timeout=TIMEOUT_S)
            return answered({(at.topic, at.partition): answer.result() for at, answer in answers.items()})

        def renew() -> None:
            with suppress(KafkaException, Misconfigured):
                self.describe({topic for topic, _ in places})

        with self._asks():
            return elected(listed, TIMEOUT_S, renew)


def _member(of: MemberDescription) -> Member:
    name, _, process = of.client_id.partition(":")
    status = status_name(str(of.group_instance_id), process) if name == REPORTING else ""
    return Member(frozenset(at.partition for at in of.assignment.topic_partitions), status, of.host.lstrip("/"))


def _offsets(listed: Mapping[tuple[str, int], ListOffsetsResultInfo]) -> dict[tuple[str, int], int]:
    return {place: found.offset for place, found in listed.items()}


def _origin(topic: str, answer: "Future[TopicDescription]") -> Origin:
    try:
        description = answer.result()
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
            raise
        msg = f"the topic {topic} cannot be read ({reason.str()}); create it or correct its name"
        raise Misconfigured(msg) from error
    return Origin(str(description.topic_id), len(description.partitions))
