"""A commit keeps Redis from answering others, so none makes too many changes."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from devkit.redis_server import Redis
from streamstate.app import App, Fold, FoldContext, Record, Source
from streamstate.keys import TEXT
from streamstate.processing.limits import TimestampLimit
from streamstate.spark.task import CHANGES_A_RECORD, Job
from streamstate.state.operations import IncrementScores, Operation, Top
from streamstate.state.redis import Client, RedisStore, connect
from streamstate.state.store import Origin
from tests.laws.protocol import decode_number

RECORDS, MEMBERS = 2_000, 10


def fold(records: Sequence[Record[str, int]], _context: FoldContext) -> Iterable[Operation]:
    for record in records:
        yield IncrementScores("ranking", {f"{record.offset % 7} {member}": 1 for member in range(MEMBERS)})


APP = App("sizes", (Fold((Source("numbers", TEXT, decode_number),), fold),))


def test_records_of_many_changes_are_committed_in_several_steps(redis_server: Redis) -> None:
    client = connect(redis_server.url, 5.0)
    store = RedisStore(client, APP.name)
    columns: dict[str, Any] = {
        "topic": ["numbers"] * RECORDS,
        "partition": pa.array([0] * RECORDS, pa.int32()),
        "offset": range(RECORDS),
        "timestamp": range(RECORDS),
        "key": [b"a"] * RECORDS,
        "value": [b"1"] * RECORDS,
    }
    claims, origins = {0: store.claim(0, "a:1", {})}, {"numbers": Origin("id", 1)}
    job = Job(APP, claims, origins, TimestampLimit(), RECORDS, 0, 1.0, "", redis_server.url, 5.0)
    before = _commits(client)
    list(job(iter([pa.RecordBatch.from_pydict(columns)])))
    assert _commits(client) - before == MEMBERS / CHANGES_A_RECORD
    snapshot = store.read({0: [Top("ranking", 100)]})[0]
    assert snapshot.positions == {"numbers": RECORDS}
    assert sum(score for _, score in snapshot.values[0]) == RECORDS * MEMBERS


def _commits(client: Client) -> int:
    """How many commits the server has applied: each removes its mark."""
    calls: int = client.info("commandstats").get("cmdstat_hdel", {"calls": 0})["calls"]
    return calls
