"""Facts known from dead letters only: records refused by a fold, by an operator, or for their timestamps.

Whether a record is from the future depends on the time of reading, and a recount folds no refused record.
"""

from collections import defaultdict
from contextlib import ExitStack, suppress
from typing import Self

from confluent_kafka import Message

from streamstate.errors import Misconfigured
from streamstate.kafka.dlq.records import SERVICE_HEADER
from streamstate.kafka.dlq.topic import Cause, cause_of, is_derived, is_receipt, letter_of, stage_of
from streamstate.kafka.history import TopicHistory, TopicLog
from streamstate.processing.decode import Stage


class RefusedRecords:
    """The dead letters in `topic` about the deployment `service`, as far as read. A context manager.

    Other releases of the service write into the same topic: their folds do not refuse records of this one.

    stages: the stage that refused a record, apart from `decode`. replaced: the causes of oversized records, by topic.
    """

    def __init__(self, service: str, topic: str, history: TopicHistory) -> None:
        self.stages: dict[Cause, Stage] = {}
        self.replaced: defaultdict[str, set[Cause]] = defaultdict(set)
        self._service = service
        self._topics = history.topics
        self._open = ExitStack()
        self._logs: dict[tuple[str, int], TopicLog] = {}
        # There may be no topic before the first dead letter.
        with suppress(Misconfigured):
            for partition in range(history.topics.partitions(topic)):
                self._logs[topic, partition] = self._open.enter_context(history.log((topic, partition)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def catch_up(self) -> None:
        """Read to the present ends, which include all letters of records in the state by now."""
        for place, end in self._topics.ends(self._logs).items():
            for letter in self._logs[place].up_to(end):
                self._add(letter)

    def _add(self, letter: Message) -> None:
        if is_receipt(letter):
            if cause := cause_of(letter):
                self.stages.setdefault(cause, "skip")
        elif is_derived(letter):
            read = letter_of(letter)
            if read.cause:
                self.replaced[read.topic].add(read.cause)
        elif (cause := cause_of(letter)) and (stage := stage_of(letter)) and self._concerns(stage, letter):
            self.stages[cause] = stage

    def _concerns(self, stage: Stage, letter: Message) -> bool:
        """Whether a record refused at `stage` is left out; a recount itself finds what `decode` refuses."""
        return stage != "decode" and (stage != "fold" or _service_of(letter) == self._service)


def _service_of(letter: Message) -> str:
    name = dict(letter.headers() or []).get(SERVICE_HEADER)
    return name.decode(errors="replace") if isinstance(name, bytes) else ""
