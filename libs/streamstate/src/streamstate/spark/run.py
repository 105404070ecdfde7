"""What one run of a query has to know, and why it ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamstate.kafka.totals import Publisher
from streamstate.spark.offsets import Offsets
from streamstate.spark.task import FoldTask
from streamstate.state.store import Claim, Origin

_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Run:
    """One run of the query: what it reads, from which `offsets`, and the work of its tasks.

    building: whether only tables are read, since one is not complete.
    offsets: of the topics that are read; a backlog that is folded before the query starts moves them on.
    publisher: of the app's totals, at the one instance that publishes them.
    left_out: by partition, why partitions that are held are not folded, until an operator has reset them.
    """

    building: bool
    offsets: Offsets
    task: FoldTask
    publisher: Publisher | None
    left_out: Mapping[int, str]

    @property
    def partitions(self) -> int:
        """The partitions of the app, whoever owns them."""
        return max(self.task.counts.values())

    @property
    def origins(self) -> Mapping[str, Origin]:
        return self.task.origins

    @property
    def claims(self) -> Mapping[int, Claim]:
        return self.task.claims


def reason(error: Exception) -> str:
    """The exception that a worker of Python ended with, else the first line of the error's own text.

    Spark's texts have the traceback of the worker, in which frames are indented, before that of the JVM.
    """
    raised, in_traceback = "", False
    lines = [line for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if _TRACEBACK in line:
            in_traceback = True
        elif in_traceback and not line.startswith((" ", "\t")):
            raised, in_traceback = line.strip(), False
    return raised or (lines[0].strip() if lines else type(error).__name__)
