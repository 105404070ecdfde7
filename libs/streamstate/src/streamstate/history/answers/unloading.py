"""The answers for all keys of a view, from a state that stands still, as Parquet files."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

from streamstate import bootstrap
from streamstate.app import App
from streamstate.errors import BadKey, Declined
from streamstate.history.answers.columns import KEY, Columns
from streamstate.history.archive.unfinished import write_text, write_whole
from streamstate.history.archive.uris import opened
from streamstate.history.backup.loaded import SavedPartitions
from streamstate.processing.fitness import require_same_folds
from streamstate.state.operations import Read
from streamstate.state.redis_reads import tag
from streamstate.state.store import Snapshot, offsets_text
from streamstate.view import View, parameters

MANIFEST = "_manifest.json"
"""Written last: a folder with it is complete. Spark and Arrow skip files with an underscore."""

POSITION = b"streamstate.position"
"""The entry of a file's metadata with the next offsets of its partition."""

_SCANNED = 2_000
_READ = 200
"""Keys read at once."""

_PROBES = ("1234567891", "12345678-9012-3456-7890-123456789012", "1234567891:1234567891")
"""A text for each form of keys."""


class Unloaded(msgspec.Struct):
    """The written answers of a view: their folder, the time of the snapshot, rows, and by partition the offsets."""

    service: str
    view: str
    folder: str
    taken: datetime
    rows: int
    positions: dict[int, str]


@dataclass(frozen=True)
class Unloading:
    """The answers of `view` for the keys in the `saved` state of `app`. Trailing windows end at `taken`.

    erased: by partition, the users whose deletion the state has not applied, as keys in Kafka.
    """

    app: App
    view: View[Any]
    saved: SavedPartitions
    taken: datetime
    erased: Mapping[int, Set[bytes]]

    def write(self, folder: str) -> Unloaded:
        """Write a file for each partition, then the manifest, into a new folder below `folder`, a folder or URI.

        Raises `Declined` for a state that cannot answer, or a view without a key.
        """
        pattern = key_pattern(self.app, self.view)
        name = f"{folder.rstrip('/')}/{self.view.name}/taken={self.taken:%Y-%m-%dT%H-%M-%SZ}"
        system, path = opened(name)
        made = Unloaded(self.app.name, self.view.name, name, self.taken, 0, {})
        columns = Columns(type(self.view.example))
        for partition, keys in self._keys(pattern).items():
            position = made.positions[partition] = self._position(partition)
            schema = pa.schema([KEY, *columns.schema], {POSITION: position.encode()})
            batches = self._batches(partition, keys, columns, schema, made)
            write_whole(system, f"{path}/{partition:05}.parquet", schema, batches)
        write_text(system, f"{path}/{MANIFEST}", msgspec.json.format(msgspec.json.encode(made)))
        return made

    def _keys(self, pattern: re.Pattern[str]) -> Mapping[int, Sequence[str]]:
        """The texts of the view's keys with a stored state, by partition. Some may have no answer."""
        found: dict[int, set[str]] = {partition: set() for partition in self.saved}
        for client in {id(each): each for each in self.saved.values()}.values():
            for raw in client.scan_iter(match=f"{{{self.app.name}:*", count=_SCANNED):
                if match := pattern.fullmatch(raw.decode(errors="replace")):
                    partition, *texts = match.groups()
                    found[int(partition)].add(next(filter(None, texts)))
        return {partition: sorted(texts) for partition, texts in found.items()}

    def _position(self, partition: int) -> str:
        """The next offsets of a partition. Raises `Declined` during its build, `Misconfigured` for other folds."""
        snapshot = self._read(partition, [])
        topics = self.app.topics_of(self.view)
        require_same_folds(self.app, topics, (snapshot,))
        if not snapshot.ready(topics):
            msg = f"partition {partition} of {self.app.name} is being built; take a snapshot after the build"
            raise Declined(msg)
        return offsets_text({(topic, partition): offset for topic, offset in snapshot.positions.items()})

    def _batches(
        self, partition: int, keys: Sequence[str], columns: Columns, schema: "pa.Schema", made: Unloaded
    ) -> Iterator["pa.RecordBatch"]:
        for start in range(0, len(keys), _READ):
            found = dict(self._answers(partition, keys[start : start + _READ]))
            made.rows += len(found)
            yield pa.record_batch([pa.array(found), *columns.arrays([*found.values()])], schema=schema)

    def _answers(self, partition: int, keys: Sequence[str]) -> Iterator[tuple[str, msgspec.Struct]]:
        """The keys that have an answer, with their answers.

        A producer with another partitioner leaves keys in partitions where the API does not look for them.
        """
        questions = {}
        counts = {topic: origin.partitions for topic, origin in self._read(partition, []).origins.items()}
        for text in keys:
            # The state of another view may have keys of the same form.
            with suppress(BadKey):
                question = self.view.ask(text, self._query)
                erased = self._encoded(*question.key) in self.erased.get(partition, ())
                if not erased and partition in question.partitions(counts):
                    questions[text] = question
        reads = {text: question.reads for text, question in questions.items()}
        values = iter(self._read(partition, [read for each in reads.values() for read in each]).values)
        for text, question in questions.items():
            answer = question.answer([next(values) for _ in reads[text]])
            if answer is not None:
                yield text, answer

    def _encoded(self, key: Any) -> bytes:
        assert self.view.key
        return self.view.key.encode(key)

    def _read(self, partition: int, reads: Sequence[Read]) -> Snapshot:
        return bootstrap.store_over(self.saved[partition], self.app.name).read({partition: reads})[partition]

    @cached_property
    def _query(self) -> msgspec.Struct | None:
        kind = self.view.query
        if kind is None:
            return None
        at = {"at": str(round(self.taken.timestamp() * 1_000))}
        return parameters(kind, at if "at" in kind.__struct_encode_fields__ else {})


def key_pattern(app: App, view: View[Any]) -> re.Pattern[str]:
    """The state keys that `view` reads, with groups for the partition and the text of the view's key.

    Raises `Declined` for a view whose reads do not name a key.
    """
    named = set()
    if not view.over_all_partitions and view.key:
        key = _probe(view)
        places = (read.key.partition(str(key)) for read in view.ask(str(key)).reads)
        named = {f"{re.escape(before)}(.+){re.escape(after)}" for before, text, after in places if text}
    if not named:
        msg = f"{view.path} is about all keys together, or its state does not name the keys"
        raise Declined(msg)
    number = "1234567891"
    before, _, after = tag(app.name, int(number)).rpartition(number)
    return re.compile(f"{re.escape(before)}([0-9]+){re.escape(after)}:(?:{'|'.join(sorted(named))})", re.DOTALL)


def _probe(view: View[Any]) -> Any:
    """A key of the view's type."""
    for text in _PROBES:
        with suppress(BadKey):
            return view.key.parse(text) if view.key else None
    raise AssertionError(view.path)
