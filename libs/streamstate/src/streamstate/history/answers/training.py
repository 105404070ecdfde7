"""Training sets: the answers of a view as of the time of each row, by a Spark batch over partitions.

A task folds the records of its partition once, in the order of the rows' times, so no row sees a later record.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from streamstate import bootstrap
from streamstate.history.answers.columns import Columns
from streamstate.history.answers.logs import Logs
from streamstate.history.answers.past import Past
from streamstate.history.answers.rows import SCHEMA
from streamstate.history.archive.unfinished import write_whole
from streamstate.history.archive.uris import opened
from streamstate.replay.feed import Overtaken
from streamstate.settings import PREFIX, ServiceSettings
from streamstate.view import Question, View, parameters

_ROWS = 5_000
"""Rows of a batch of a file."""

_LOOK_S = 0.5


class Written(NamedTuple):
    """The number of written rows, and of the rows that lack a record behind a later timestamp."""

    rows: int
    lacking: int


@dataclass(frozen=True)
class TrainingTask:
    """The work of a task: the rows of a partition, answered by the view `view` of the service at `package`.

    given: the parameters of the request. folder: a folder or URI for the files. variables: the environment, and path:
        the folders of modules, of the process that sends the task.
    """

    package: str
    view: str
    settings: ServiceSettings
    given: Mapping[str, str]
    folder: str
    variables: Mapping[str, str]
    path: Sequence[str]

    def __call__(self, part: tuple[int, bytes]) -> Written:
        """Write the file of a partition. `part` is the partition, and its rows."""
        for name in {*variables()} - {*self.variables}:
            # The worker is a child of a process with other settings than the deployment's.
            del os.environ[name]
        os.environ.update(self.variables)
        sys.path.extend(folder for folder in self.path if folder not in sys.path)
        partition, rows = part
        app = bootstrap.app(self.package, self.settings)
        view = next(view for view in app.views if view.name == self.view)
        table = pa.ipc.open_stream(rows).read_all()
        columns = Columns(type(view.example))
        schema = pa.schema([*SCHEMA, *columns.schema])
        system, folder = opened(self.folder)
        overtaken = Overtaken(_times(table))
        with Logs(app, view, self.settings).past([partition], overtaken) as past:
            batches = self._batches(table, view, past, columns, schema)
            write_whole(system, f"{folder}/{partition:05}.parquet", schema, batches)
            past.look_ahead(_times(table)[-1])
        return Written(table.num_rows, overtaken.answers)

    def _batches(
        self, table: "pa.Table", view: View[Any], past: Past, columns: Columns, schema: "pa.Schema"
    ) -> Iterator["pa.RecordBatch"]:
        asked = self._asked(view)
        for batch in table.to_batches(_ROWS):
            answers = []
            keys: Any = batch["key"].to_pylist()
            for key, time in zip(keys, _times(batch), strict=True):
                past.advance_until(time)
                answers.append(past.answer(asked(key, time)))
            yield pa.record_batch([*batch.columns, *columns.arrays(answers)], schema=schema)

    def _asked(self, view: View[Any]) -> Callable[[str, int], Question]:
        """The question about a key at a time: trailing windows end there, unless the request has another end."""
        if view.query is None:
            return lambda key, _time: view.ask(key)
        kind = view.query
        if "at" in kind.__struct_encode_fields__ and "at" not in self.given:
            return lambda key, time: view.ask(key, parameters(kind, {**self.given, "at": str(time)}))
        query = parameters(kind, self.given)
        return lambda key, _time: view.ask(key, query)


def train(
    spark: SparkSession, task: TrainingTask, parts: Sequence[tuple[int, "pa.Table"]], notice: Callable[[int], None]
) -> Written:
    """Run a task for each of `parts`, a partition and its rows by time; returns the sums.

    notice: called now and then with the number of partitions that are written.
    """
    context = spark.sparkContext
    sent = [(partition, _packed(rows)) for partition, rows in parts]
    written = context.parallelize(sent, len(sent)).map(task)
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(inheritable_thread_target(spark)(written.collect))
        while not running.done():
            wait([running], _LOOK_S)
            tracker = context.statusTracker()
            stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
            notice(sum(stage.numCompletedTasks for stage in stages if stage))
        return Written(*map(sum, zip(*running.result(), strict=True)))


def _times(rows: Any) -> list[int]:
    times: list[int] = rows["time"].cast(pa.int64()).to_pylist()
    return times


def variables() -> dict[str, str]:
    """The variables of the settings in this process."""
    return {name: value for name, value in os.environ.items() if name.upper().startswith(PREFIX)}


def _packed(rows: "pa.Table") -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()
