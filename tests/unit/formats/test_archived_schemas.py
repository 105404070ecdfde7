"""Schemas beside the files of an archive, for records that are older than the registry's memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from services.archive.schemas import SchemaKeeper
from streamstate.archive.files import Archive
from streamstate.errors import RegistryUnavailable
from streamstate.formats.format import Format
from streamstate.formats.registered.framing import framed
from streamstate.formats.registered.registry import Registry, Schema
from tests.unit.formats import known

PLAY = Schema("AVRO", '{"type": "record", "name": "Play", "fields": []}')
FORMATS = {"plays": Format(value="avro")}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(str(tmp_path / "archive"))


def test_a_schema_is_kept_once_and_read_without_the_registry(tmp_path: Path, archive: Archive) -> None:
    SchemaKeeper(archive, known.registry(tmp_path, _7=PLAY), FORMATS).keep("plays", [framed(7, b""), b"\0", None])
    # Other topics have no schemas, whatever their values begin with.
    SchemaKeeper(archive, Registry(known.AWAY), FORMATS).keep("numbers", [framed(8, b"")])
    SchemaKeeper(archive, Registry(known.AWAY), FORMATS).keep("plays", [framed(7, b"other")])
    away = Registry(known.AWAY, archive=archive.uri)
    assert away.schema(7) == PLAY
    with pytest.raises(RegistryUnavailable):
        away.schema(8)
    with pytest.raises(RegistryUnavailable):
        replace(away, archive="").schema(7)


def test_values_wait_for_their_schemas(archive: Archive) -> None:
    keeper = SchemaKeeper(archive, Registry(known.AWAY), FORMATS)
    for _ in range(2):
        with pytest.raises(RegistryUnavailable):
            keeper.keep("plays", [framed(7, b"")])
    assert archive.topics() == {}
