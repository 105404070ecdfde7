"""All versions of the rows of tables: a look-up may have seen any of them."""

from collections import defaultdict
from contextlib import ExitStack
from typing import Self

from streamstate.kafka.admin import Topics
from streamstate.settings import ServiceSettings
from streamstate.verify.topic_log import Log


class Tables:
    """The versions of `tables`, of all partitions. Use it as a context manager."""

    def __init__(self, tables: tuple[str, ...], settings: ServiceSettings, topics: Topics) -> None:
        self.versions: defaultdict[tuple[str, bytes], set[bytes | None]] = defaultdict(set)
        self._topics = topics
        self._open = ExitStack()
        self._logs = {
            (table, partition): self._open.enter_context(Log(settings.kafka, settings.security, table, partition))
            for table in tables
            for partition in range(topics.partitions(table))
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def catch_up(self) -> None:
        """Read on to the present ends."""
        for place, end in self._topics.ends(self._logs).items() if self._logs else ():
            for message in self._logs[place].up_to(end):
                self.versions[place[0], message.key() or b""].add(message.value())
