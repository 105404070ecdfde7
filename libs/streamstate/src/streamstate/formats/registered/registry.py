"""The schema registry, and what was fetched from it before."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec

from streamstate.errors import RegistryUnavailable


class Schema(msgspec.Struct, frozen=True):
    """A schema as the registry has it: `kind` is AVRO, PROTOBUF or JSON.

    references: the texts of those that it needs, by the name that it uses, each behind those that it needs itself.
    """

    kind: str
    text: str
    references: dict[str, str] = {}


@dataclass(frozen=True)
class Registry:
    """A registry with the API of Confluent's.

    url: where its API begins; several are separated by commas.
    folder: keeps what was fetched, so that a schema stays known to all processes of this machine while the registry is
        away; empty for none.
    username, password, ca: its user, and the files of the password and of the CA that signed its certificate.
    """

    url: str
    folder: str = ""
    username: str = ""
    password: Path | None = None
    ca: Path | None = None

    def schema(self, number: int) -> Schema:
        """The schema with this id. Raises `UnknownSchema`, or `RegistryUnavailable` when it is not known yet."""
        file = self.file(number)
        if file and file.exists():
            return msgspec.json.decode(file.read_bytes(), type=Schema)
        schema: Schema = self._client().fetch(number)
        if file:
            with suppress(OSError):
                write(file, schema)
        return schema

    def register(self, subject: str, schema: Schema) -> int:
        """The id of `schema`, which `subject` has from now on. The registry is asked once.

        Raises `Misconfigured` when the registry refuses it, and `RegistryUnavailable`.
        """
        return int(self._client().register(subject, schema))

    def _client(self) -> Any:
        """That of what the files have now. Raises `RegistryUnavailable` when one cannot be read."""
        try:
            password = self.password.read_text().strip("\r\n") if self.password else ""
            content = self.ca.read_text() if self.ca else ""
        except OSError as error:
            msg = f"REGISTRY_PASSWORD or REGISTRY_CA cannot be read: {error}"
            raise RegistryUnavailable(msg) from error
        user = f"{self.username}:{password}" if self.username else ""
        return _client(self.url, user, str(self.ca or ""), content)

    def file(self, number: int) -> Path | None:
        """Where the schema with this id is kept: ids are those of one registry."""
        return Path(self.folder, sha256(self.url.encode()).hexdigest()[:16], str(number)) if self.folder else None


@lru_cache
def _client(url: str, user: str, ca: str, _content: str) -> Any:
    # Its packages take memory, and APIs need the formats of keys only.
    return import_module("streamstate.formats.registered.client").RegistryClient(url, user, ca)


def write(file: Path, schema: Schema) -> None:
    """All of it or nothing: other processes read it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, delete=False) as scratch:
        scratch.write(msgspec.json.encode(schema))
    Path(scratch.name).replace(file)
