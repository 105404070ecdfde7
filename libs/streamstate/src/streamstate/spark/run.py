"""The plan of one run of a query, and the reason of its end."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamstate.kafka.totals import Publisher
from streamstate.spark.offsets import Offsets
from streamstate.spark.task import FoldTask
from streamstate.state.store import Claim, Origin

_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Run:
    """One run of the query: the `offsets` to read from, and the work of its tasks.

    building: whether only tables are read, since a table is not complete.
    offsets: of the topics to read; advanced by a backlog folded before the query starts.
    publisher: of the app's totals, on the instance that publishes totals.
    left_out: by partition, why a held partition is not folded until an operator resets it.
    """

    building: bool
    offsets: Offsets
    task: FoldTask
    publisher: Publisher | None
    left_out: Mapping[int, str]

    @property
    def partitions(self) -> int:
        """The partition count of the app, over all owners."""
        return max(self.task.counts.values())

    @property
    def origins(self) -> Mapping[str, Origin]:
        return self.task.origins

    @property
    def claims(self) -> Mapping[int, Claim]:
        return self.task.claims


def reason(error: Exception) -> str:
    """The exception of the Python worker, else the first line of the error's own text.

    Spark's texts have the worker's traceback, with indented frames, before the JVM's.
    """
    raised, in_traceback = "", False
    lines = [line for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if _TRACEBACK in line:
            in_traceback = True
        elif in_traceback and not line.startswith((" ", "\t")):
            raised, in_traceback = line.strip(), False
    return raised or (lines[0].strip() if lines else type(error).__name__)
