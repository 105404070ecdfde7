"""Schemas of archived values, kept beside the files: old records are readable without the registry."""

from collections.abc import Collection, Mapping

import msgspec
import structlog

from streamstate.archive.files import Archive
from streamstate.errors import BadRecord, UnknownSchema
from streamstate.formats.applied import ALL
from streamstate.formats.format import REGISTERED, Format
from streamstate.formats.registered.framing import schema_id
from streamstate.formats.registered.registry import Registry

log = structlog.get_logger()


class SchemaKeeper:
    """Fetches each schema of the values of topics with registered formats once."""

    def __init__(self, archive: Archive, registry: Registry, formats: Mapping[str, Format]) -> None:
        self._archive = archive
        self._registry = registry
        self._formats = formats
        self._known: set[int] = set()

    def keep(self, topic: str, values: Collection[bytes | None]) -> None:
        """Keep the schemas of `values`. Raises `RegistryUnavailable`, and `OSError` where the archive fails."""
        declared = self._formats.get(topic, self._formats.get(ALL))
        if declared is None or declared.value not in REGISTERED:
            return
        numbers = {number for value in values if value and (number := _number(value)) is not None}
        for number in numbers - self._known:
            if self._archive.schema(number) is None:
                self._fetch(number)
            self._known.add(number)

    def _fetch(self, number: int) -> None:
        try:
            self._archive.add_schema(number, msgspec.json.encode(self._registry.schema(number)))
        except UnknownSchema as error:
            log.warning("a value has an unknown schema", schema=number, reason=str(error))


def _number(value: bytes) -> int | None:
    """The schema id of a value, None for a value without an id."""
    try:
        return schema_id(value)
    except BadRecord:
        return None
