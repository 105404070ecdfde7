"""Settings of topics in Kafka with which a state would lack records, or a topic would refuse them. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.state.store import Snapshot

POLICY, RETENTION, TIMES = "cleanup.policy", "retention.ms", "message.timestamp.type"
AFTER, SIZE = "message.timestamp.after.max.ms", "max.message.bytes"
BEFORE = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
"""The bound of the age of a record; Kafka before 3.6 had the second one alone."""

LONG_MAX = 2**63 - 1

_DEFAULTS = {POLICY: "delete", RETENTION: "-1", TIMES: "CreateTime", SIZE: "0", **dict.fromkeys(BEFORE, str(LONG_MAX))}
"""Of a broker without the setting."""

Settings = Mapping[str, str]
"""The settings of a topic by name; none where they may not be read."""


class Finding(NamedTuple):
    """A wrong setting of a topic, with the next step.

    effect: what is refused because of it: nothing, a build from nothing that no operator has allowed, or each start.
    """

    topic: str
    effect: Literal["nothing", "build", "start"]
    text: str


@dataclass(frozen=True)
class TopicCheck:
    """The check of the settings of the topics of `app`.

    tolerances: the accepted milliseconds ahead of the clock, by topic. deletions: the topic of deletions, empty without
        one. kafka: the bootstrap servers, for commands.
    """

    app: App
    tolerances: Mapping[str, int]
    deletions: str
    kafka: str

    @property
    def topics(self) -> list[str]:
        """The topics whose settings matter."""
        deletions = [self.deletions] if self.deletions and self.app.user_folds else []
        return [*dict.fromkeys([*self.app.topics, *self._dated, self.app.dead_letters, *deletions])]

    @property
    def _dated(self) -> list[str]:
        """The written topics whose records have the times of their causes."""
        return [self.app.output(name) for name, derived in self.app.emits.items() if derived.dated]

    def findings(self, settings: Mapping[str, Settings]) -> list[Finding]:
        """What is wrong with the `settings` of the topics that exist."""
        found = []
        if unread := [topic for topic, of in settings.items() if not of]:
            text = f"the settings of {', '.join(unread)} cannot be read: grant DescribeConfigs (docs/rights.md)"
            found.append(Finding(unread[0], "nothing", text))
        readable = {topic: {**_DEFAULTS, **of} for topic, of in settings.items() if of}
        for topic in self.topics:
            if topic in readable:
                found += self._of_topic(topic, readable[topic], readable)
        return found

    def _of_topic(self, topic: str, own: Settings, settings: Mapping[str, Settings]) -> Iterator[Finding]:
        compacted = "compact" in own[POLICY]
        if compacted and any(source.topic == topic and not source.compactable for source in self.app.sources):
            yield Finding(topic, "build", self._compacted(topic, own))
        if topic in self._dated:
            yield from self._of_dated(topic, own, settings)
        if compacted and topic == self.app.dead_letters:
            lost = f"Kafka compacts {topic}: letters of records without a value, or with a receipt, are lost to a build"
            yield Finding(topic, "nothing", f"{lost}; {self._alter(topic, POLICY, 'delete')}")
        if topic == self.deletions and own[POLICY] != "compact" and int(own[RETENTION]) >= 0:
            back = f"Kafka deletes records of {topic} after {_time(own[RETENTION])}: a build then brings users back"
            yield Finding(topic, "nothing", f"{back}; {self._alter(topic, POLICY, 'compact')}")

    def _compacted(self, topic: str, own: Settings) -> str:
        return (
            f"Kafka compacts {topic} ({POLICY}={own[POLICY]}), and a state built from it lacks records before the last "
            f"of each key: {self._alter(topic, POLICY, 'delete')} and send the records again, or serve a state without "
            f"them: run `streamstate allow SERVICE {topic} --reason TEXT`, or list the topic in "
            f'STREAMSTATE_TRUNCATED_TOPICS of streams and APIs, e.g. ["{topic}"]'
        )

    def _of_dated(self, topic: str, own: Settings, settings: Mapping[str, Settings]) -> Iterator[Finding]:
        """The settings of a topic whose records keep the times, and the sizes, of their causes."""
        causes = {each: of for each, of in settings.items() if each in self.app.topics and each not in self._dated}
        if own[TIMES] == "LogAppendTime":
            text = (
                f"Kafka dates the records of {topic} anew ({TIMES}=LogAppendTime), so windows take old events for new "
                f"ones: {self._alter(topic, TIMES, 'CreateTime')}, and if it has records, stop the streams, create it "
                "anew and run `streamstate reset SERVICE`"
            )
            yield Finding(topic, "start", text)
            return
        for name in BEFORE:
            if int(own[name]) < LONG_MAX:
                old = f"{topic} refuses records older than {_time(own[name])} ({name}), and each stops its partition"
                yield Finding(topic, "nothing", f"{old}; {self._alter(topic, name, LONG_MAX)}")
        ahead = max((min(self.tolerances.get(each, 0), _ahead(of)) for each, of in causes.items()), default=0)
        if _ahead(own) < ahead:
            early = f"{topic} refuses records further ahead than {_time(own[AFTER])} ({AFTER}), and {', '.join(causes)}"
            text = f"{early} may have records {_time(ahead)} ahead, which stop their partition"
            yield Finding(topic, "nothing", f"{text}; {self._alter(topic, AFTER, ahead)}")
        largest = max((int(of[SIZE]) for of in causes.values()), default=0)
        if int(own[SIZE]) < largest:
            short = f"{topic} takes {int(own[SIZE]):,} bytes ({SIZE}), and {', '.join(causes)} {largest:,}"
            text = f"{short}: larger records become dead letters; {self._alter(topic, SIZE, largest)}"
            yield Finding(topic, "nothing", text)

    def _alter(self, topic: str, name: str, value: object) -> str:
        where = f"--bootstrap-server {self.kafka} --entity-type topics --entity-name {topic}"
        return f"run `kafka-configs.sh {where} --alter --add-config {name}={value}`"


def unbounded(tolerances: Mapping[str, int], settings: Mapping[str, Settings]) -> dict[str, int]:
    """The topics for which Kafka accepts timestamps further ahead of its clock than the tolerance.

    tolerances: milliseconds by topic. The result includes topics whose settings may not be read.
    """
    return {topic: most for topic, most in tolerances.items() if _ahead(settings.get(topic, {})) > most}


def _ahead(settings: Settings) -> int:
    """The most milliseconds of an accepted timestamp ahead of the broker's clock."""
    return 0 if settings.get(TIMES) == "LogAppendTime" else int(settings.get(AFTER, LONG_MAX))


def require_settings(
    found: Iterable[Finding], snapshots: Mapping[int, Snapshot], truncated: Collection[str] = ()
) -> None:
    """Raise `Misconfigured` for a finding that refuses the start, or a build of one of the states in `snapshots`.

    truncated: topics that may lack records. An operator may allow the lack for one state, too.
    """
    for finding in found:
        topic, states = finding.topic, snapshots.values()
        lacks = not states or not all(_is_built(of, topic) or topic in of.allowances for of in states)
        if finding.effect == "start" or (finding.effect == "build" and lacks and topic not in truncated):
            raise Misconfigured(finding.text)


def _is_built(snapshot: Snapshot, topic: str) -> bool:
    """Whether the build has begun, or began without a record in Kafka."""
    return snapshot.owner is not None and (topic in snapshot.positions or not snapshot.targets.get(topic))


def _time(milliseconds: str | int) -> str:
    return f"{int(milliseconds):,} ms"
