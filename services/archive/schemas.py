"""Schemas of archived keys and values, kept beside the files: old records are readable without the registry."""

from collections.abc import Collection, Mapping

import msgspec
import structlog

from streamstate.errors import BadRecord, UnknownSchema
from streamstate.formats.applied import ALL
from streamstate.formats.format import REGISTERED, Format
from streamstate.formats.registered.framing import schema_id
from streamstate.formats.registered.registry import Registry, SchemaId
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import Row
from streamstate.processing.decode import framed

log = structlog.get_logger()


class SchemaKeeper:
    """Fetches each schema of topics with registered formats once."""

    def __init__(self, archive: Archive, registry: Registry, formats: Mapping[str, Format]) -> None:
        self._archive = archive
        self._registry = registry
        self._formats = formats
        self._known: set[SchemaId] = set()

    def keep(self, topic: str, rows: Collection[Row]) -> None:
        """Keep the schemas of records. Raises `RegistryUnavailable`, and `OSError` where the archive fails."""
        declared = self._formats.get(topic, self._formats.get(ALL))
        if declared is None:
            return
        kinds = [kind in REGISTERED for kind in (declared.key, declared.value)]
        if not any(kinds):
            return
        pairs = (framed(row[5] if declared.header_ids else None, row[3], row[4]) for row in rows)
        contents = (raw for pair in pairs for raw, kept in zip(pair, kinds, strict=True) if kept and raw)
        numbers = {number for raw in contents if (number := _number(raw, guids=declared.header_ids)) is not None}
        for number in numbers - self._known:
            if self._archive.schema(number) is None:
                self._fetch(number)
            self._known.add(number)

    def _fetch(self, number: SchemaId) -> None:
        try:
            self._archive.add_schema(number, msgspec.json.encode(self._registry.schema(number)))
        except UnknownSchema as error:
            log.warning("a value has an unknown schema", schema=number, reason=str(error))


def _number(raw: bytes, *, guids: bool) -> SchemaId | None:
    """The schema id of a key or value, None without an id."""
    try:
        return schema_id(raw, guids=guids)
    except BadRecord:
        return None
