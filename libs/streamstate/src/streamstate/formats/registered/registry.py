"""The schema registry, and its cache of fetched schemas."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec

from streamstate.errors import RegistryUnavailable, UnknownSchema

SchemaId = int | str
"""A number, or a GUID."""


class Schema(msgspec.Struct, frozen=True):
    """A schema in the registry: `kind` is AVRO, PROTOBUF or JSON.

    references: the texts of imported schemas by import name, dependencies first.
    """

    kind: str
    text: str
    references: dict[str, str] = {}


@dataclass(frozen=True)
class Registry:
    """A registry with Confluent's API.

    url: the base URL of the API; several are separated by commas.
    folder: keeps fetched schemas, so that all processes of this machine know them while the registry is away; empty for
        none.
    archive: the folder or URI of an archive with schemas, for schemas that the registry does not give; empty for none.
    username, password, ca: the user, and the files of the password and of the CA of its certificate.
    """

    url: str
    folder: str = ""
    username: str = ""
    password: Path | None = None
    ca: Path | None = None
    archive: str = ""

    def schema(self, number: SchemaId) -> Schema:
        """The schema with this id. Raises `UnknownSchema`, or `RegistryUnavailable` for a schema not fetched before.

        Records in an archive may be older than the registry's memory.
        """
        file = self.file(number)
        if file and file.exists():
            return msgspec.json.decode(file.read_bytes(), type=Schema)
        try:
            schema: Schema = self._client().fetch(number)
        except (RegistryUnavailable, UnknownSchema):
            if (archived := _archived(self.archive, number)) is None:
                raise
            schema = msgspec.json.decode(archived, type=Schema)
        if file:
            with suppress(OSError):
                write(file, schema)
        return schema

    def register(self, subject: str, schema: Schema) -> int:
        """The id of `schema`, registered under `subject`. The registry is asked once.

        Raises `Misconfigured` when the registry refuses the schema, and `RegistryUnavailable`.
        """
        return int(self._client().register(subject, schema))

    def latest(self, subject: str) -> tuple[int, Schema]:
        """The id and schema of the latest version of `subject`. The registry is asked once.

        Raises `Misconfigured` for a subject without a version, and `RegistryUnavailable`.
        """
        found: tuple[int, Schema] = self._client().latest(subject)
        return found

    def _client(self) -> Any:
        """The client for the present contents of the files. Raises `RegistryUnavailable` for an unreadable file."""
        try:
            password = self.password.read_text().strip("\r\n") if self.password else ""
            content = self.ca.read_text() if self.ca else ""
        except OSError as error:
            msg = f"REGISTRY_PASSWORD or REGISTRY_CA cannot be read: {error}"
            raise RegistryUnavailable(msg) from error
        user = f"{self.username}:{password}" if self.username else ""
        return _client(self.url, user, str(self.ca or ""), content)

    def file(self, number: SchemaId) -> Path | None:
        """The file of the schema with this id, in a folder for the registry: ids are unique in one registry only."""
        return Path(self.folder, sha256(self.url.encode()).hexdigest()[:16], str(number)) if self.folder else None


@lru_cache
def _client(url: str, user: str, ca: str, _content: str) -> Any:
    # Its packages take memory, and APIs need the formats of keys only.
    return import_module("streamstate.formats.registered.client").RegistryClient(url, user, ca)


def _archived(uri: str, number: SchemaId) -> bytes | None:
    """The archived schema with this id, None without one, or while the archive cannot be read."""
    if not uri:
        return None
    with suppress(OSError, ModuleNotFoundError):
        # Arrow takes memory, and some images lack it.
        content: bytes | None = import_module("streamstate.history.archive.files").Archive(uri).schema(number)
        return content
    return None


def write(file: Path, schema: Schema) -> None:
    """Write atomically: other processes read the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, delete=False) as scratch:
        scratch.write(msgspec.json.encode(schema))
    Path(scratch.name).replace(file)
