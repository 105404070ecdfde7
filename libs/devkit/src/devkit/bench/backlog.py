"""A backlog of merged topics, folded from nothing in a folder of limited size, and killed half way."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from devkit import DevkitError
from devkit.bench import cpu
from devkit.bench.data import FIRST_MS, SEED
from devkit.child_process import Child
from devkit.local_cluster import LocalCluster, spark_in
from services.clicks.model import USER_CLICKS, USER_REGIONS
from services.notifications.model import OPEN, TICK
from streamstate import bootstrap
from streamstate.cli.services import deployments
from streamstate.kafka.producer import producer
from streamstate.keys import TEXT, partition_of
from streamstate.state.store import Store, TopicPartition
from streamstate.verify.check import Check

USERS, PARTITIONS = 2_000, 8
LATE_MS, DAY_MS = 300_000, 86_400_000
LONGEST_S = 3_600

Record = tuple[str, bytes, bytes, int]
"""Topic, key, value, timestamp."""


@dataclass(frozen=True)
class Merged:
    """A service that joins the stream of a topic with the table of another, and the values of both."""

    service: str
    table: str
    rows: Sequence[bytes]
    stream: str
    value: bytes


CASES = (
    Merged("clicks", USER_REGIONS, (b"africa", b"asia", b"europe"), USER_CLICKS, b"1"),
    Merged("notifications", OPEN, (b"Closed", *[b"Open"] * 9), TICK, b""),
)


@dataclass(frozen=True)
class Backlog:
    """What folding took, and what it had in files and in memory at most, in bytes.

    per_second: records, the restart left out. kept: the records that the state had when the stream was killed.
    """

    service: str
    records: int
    per_second: float
    files: int
    resident: int
    kept: int


def records(case: Merged, count: int) -> Iterator[Record]:
    """A day of a skewed kind.

    Half of the records are in one partition and all are late by up to five minutes; those of the tenth hour have one
    timestamp, and the table ends at noon.
    """
    draw = Random(SEED)  # noqa: S311, nothing secret
    users = [TEXT.encode(f"user-{number}") for number in range(USERS)]
    busy = [user for user in users if partition_of(user, PARTITIONS) == 0]
    for number in range(count):
        moment = DAY_MS * number // count
        hour = moment * 24 // DAY_MS
        user = draw.choice(busy if draw.random() < 0.5 else users)
        timestamp = FIRST_MS + (hour * DAY_MS // 24 if hour == 9 else moment - draw.randrange(LATE_MS))
        if hour < 12 and draw.random() < 0.1:
            yield case.table, user, draw.choice(case.rows), timestamp
        else:
            yield case.stream, user, case.value, timestamp


def send(bootstrap: str, case: Merged, count: int) -> None:
    out = producer(bootstrap)
    for topic, key, value, timestamp in records(case, count):
        while True:
            with suppress(BufferError):
                out.produce(topic, value, key, timestamp=timestamp)
                break
            out.poll(0.1)
    out.flush()


def measure(cluster: LocalCluster, case: Merged, count: int, folder: Path) -> Backlog:
    """`count` records are in the topics, and nothing is stored. Raises `DevkitError` when the state is not exact."""
    stream = cluster.of_services([case.service], SPARK=spark_in(folder))
    store = bootstrap.store(cluster.redis.url, 60, case.service)
    watch = FoldMonitor(stream, store, (folder, cluster.checkpoints))
    try:
        first = watch.fold(count // 2)
        stream.kill()
        kept = watch.folded
        second = watch.fold(count)
    finally:
        stream.stop()
    [deployment] = deployments(cluster.settings, [case.service], "recount")
    report = Check(deployment.recounted, cluster.settings).run()
    if report.differences:
        msg = f"{report}, such as {report.differences[0]}; do not trust the figures"
        raise DevkitError(msg)
    return Backlog(case.service, count, count / (first + second), watch.files, watch.resident, kept)


class FoldMonitor:
    """Looks at a stream while it folds: positions never go back."""

    def __init__(self, stream: Child, store: Store, folders: Sequence[Path]) -> None:
        self._stream = stream
        self._store = store
        self._folders = folders
        self._positions: Mapping[TopicPartition, int] = {}
        self.files = 0
        self.resident = 0

    @property
    def folded(self) -> int:
        return sum(self._positions.values())

    def fold(self, count: int) -> float:
        """Seconds from the first commit of a new process until `count` records are folded."""
        before, marks = self.folded, list[float]()

        def reached() -> bool:
            self._look()
            if self.folded > before:
                marks.append(time.monotonic())
            return self.folded >= count

        self._stream.start()
        self._stream.wait_until(reached, timeout=LONGEST_S)
        return marks[-1] - marks[0]

    def _look(self) -> None:
        snapshots = self._store.read({partition: [] for partition in range(PARTITIONS)})
        now = {(topic, p): at for p, snapshot in snapshots.items() for topic, at in snapshot.positions.items()}
        if back := [place for place, at in self._positions.items() if now.get(place, 0) < at]:
            msg = f"the state went back in {back}"
            raise DevkitError(msg)
        self._positions = now
        self.files = max(self.files, sum(map(size, self._folders)))
        self.resident = max(self.resident, cpu.resident(self._stream.pid))


def size(folder: Path) -> int:
    """Bytes of the files in `folder`."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total
