"""Schemas beside the files of an archive, for records that are older than the registry's memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from services.archive.schemas import SchemaKeeper
from streamstate.errors import RegistryUnavailable
from streamstate.formats.format import Format
from streamstate.formats.registered.framing import framed
from streamstate.formats.registered.registry import Registry, Schema
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import Row
from tests.unit.formats import known

PLAY = Schema("AVRO", '{"type": "record", "name": "Play", "fields": []}')
KEY = Schema("AVRO", '"long"')
FORMATS = {"plays": Format(key="avro", key_schema=9, value="avro")}


def row(number: int, key: bytes | None = None) -> Row:
    return 0, 0, 1, key, framed(number, b""), None


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(str(tmp_path / "archive"))


def test_a_schema_is_kept_once_and_read_without_the_registry(tmp_path: Path, archive: Archive) -> None:
    keeper = SchemaKeeper(archive, known.registry(tmp_path, _7=PLAY, _9=KEY), FORMATS)
    keeper.keep("plays", [row(7, key=framed(9, b"")), row(7)])
    # Other topics have no schemas, whatever their values begin with.
    SchemaKeeper(archive, Registry(known.AWAY), FORMATS).keep("numbers", [row(8)])
    SchemaKeeper(archive, Registry(known.AWAY), FORMATS).keep("plays", [row(7)])
    away = Registry(known.AWAY, archive=archive.uri)
    assert (away.schema(7), away.schema(9)) == (PLAY, KEY)
    with pytest.raises(RegistryUnavailable):
        away.schema(8)
    with pytest.raises(RegistryUnavailable):
        replace(away, archive="").schema(7)


def test_values_wait_for_their_schemas(archive: Archive) -> None:
    keeper = SchemaKeeper(archive, Registry(known.AWAY), FORMATS)
    for _ in range(2):
        with pytest.raises(RegistryUnavailable):
            keeper.keep("plays", [row(7)])
    assert archive.topics() == {}
