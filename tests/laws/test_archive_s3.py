"""The archive in a bucket of a real S3-compatible server, Versity's gateway; `make object-store` compiles it."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from devkit.servers.child_process import LOCALHOST, Child, free_port
from streamstate.history.archive.compaction import compact
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import Row, batch
from streamstate.history.archive.segments import Segment
from tests.waiting import PATIENCE_S

PROGRAM = shutil.which("versitygw", path=f".cache/go/bin{os.pathsep}{os.environ['PATH']}")
PLACE = ("plays", 3)
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "archive",
    "AWS_SECRET_ACCESS_KEY": "of-the-tests",
    "AWS_EC2_METADATA_DISABLED": "true",
}

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no S3 server: run `make object-store`, which needs Go")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    home, address = tmp_path_factory.mktemp("s3"), f"{LOCALHOST}:{free_port()}"
    (home / "buckets" / "company").mkdir(parents=True)
    login = {
        "ROOT_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "ROOT_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    argv = [PROGRAM or "", "--port", address, "posix", str(home / "buckets")]
    with Child("the S3 server", argv, home / "s3.log", login) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        archive = Archive(f"s3a://company/archive?endpoint_override={address}&scheme=http&region=us-east-1")
        server.wait_until(lambda: answers(archive), timeout=PATIENCE_S)
        yield archive


def answers(archive: Archive) -> bool:
    try:
        return archive.topics() == {}
    except OSError:
        return False


def rows(first: int, count: int) -> list[Row]:
    return [(n, n, 1, str(n % 3).encode(), os.urandom(100), [("n", b"1")]) for n in range(first, first + count)]


def offsets(found: Iterator[pa.RecordBatch]) -> list[Any]:
    return [offset for each in found for offset in each["offset"].to_pylist()]


def test_files_are_written_read_and_compacted_in_a_bucket(archive: Archive) -> None:
    written = [batch(rows(first, 500)) for first in (0, 500)]
    for first, each in zip((0, 500), written, strict=True):
        archive.write(PLACE, Segment(first, first + 499), "id", [each])
    assert pa.Table.from_batches(archive.read(PLACE, 0)).equals(pa.Table.from_batches(written))
    assert (archive.topics(), archive.topic_id(PLACE)) == ({"plays": [3]}, "id")
    assert archive.times(PLACE, Segment(500, 999)) == (500, 999)
    reading = archive.read(PLACE, 0)
    read = offsets(iter([next(reading)]))
    assert compact(archive, PLACE, {b"1": 500}) == (2, 167)
    assert archive.segments(PLACE) == [Segment(0, 999)]
    assert read + offsets(reading) == list(range(1_000))
    assert offsets(archive.read(PLACE, 0, 500, "id")) == [n for n in range(500) if n % 3 != 1]


def test_an_interrupted_upload_is_never_read(archive: Archive) -> None:
    place = ("plays", 4)

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield batch(rows(0, 70_000))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        archive.write(place, Segment(0, 99_999), "id", interrupted())
    assert archive.files(place) == []


def test_schemas_are_kept_in_a_bucket(archive: Archive) -> None:
    archive.add_schema(7, b"{}")
    assert (archive.schema(7), archive.schema(8)) == (b"{}", None)
