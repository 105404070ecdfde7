"""What is asked of the schema registry, by Confluent's client."""

import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

from streamstate.errors import Misconfigured, RegistryUnavailable, UnknownSchema
from streamstate.formats.registered.registry import Schema

TIMEOUT_S = 3
AWAY_S = 1.0
"""Seconds for which a registry that did not answer is not asked again: every record could need it."""

UNKNOWN_ID, INCOMPATIBLE, INVALID = 40403, 409, 422
JUST_NOW = "a moment ago"

T = TypeVar("T")


class Client:
    """The registry at `url`, as of a `Registry`: `user` is user:password, `ca` a file, or both are empty."""

    def __init__(self, url: str, user: str, ca: str) -> None:
        self._url = url
        self._away_until = 0.0
        proofs = {name: value for name, value in (("basic.auth.user.info", user), ("ssl.ca.location", ca)) if value}
        self._client = SchemaRegistryClient({"url": url, "timeout": TIMEOUT_S, "max.retries": 0, **proofs})

    def fetch(self, number: int) -> Schema:
        """Raises as `Registry.schema` does."""
        return self._ask(lambda: self._with_references(self._client.get_schema(number)))

    def register(self, subject: str, schema: Schema) -> int:
        """Raises as `Registry.register` does."""
        registered = Registered(schema.text, schema.kind)
        return self._ask(lambda: self._client.register_schema(subject, registered), subject)

    def _ask(self, request: Callable[[], T], subject: str = "") -> T:
        if time.monotonic() < self._away_until:
            raise self._unavailable(JUST_NOW)
        try:
            return request()
        except SchemaRegistryError as error:
            if error.error_code == UNKNOWN_ID:
                raise UnknownSchema(str(error.error_message)) from error
            if subject and error.http_status_code in (INCOMPATIBLE, INVALID):
                msg = (
                    f"the schema registry refuses what would be written to {subject}: {error.error_message}; name "
                    "another topic in TOPICS, or change the compatibility of this subject"
                )
                raise Misconfigured(msg) from error
            raise self._unavailable(str(error)) from error
        except Exception as error:
            self._away_until = time.monotonic() + AWAY_S
            raise self._unavailable(str(error)) from error

    def _unavailable(self, reason: str) -> RegistryUnavailable:
        hosts = ", ".join(f"{at.hostname}:{at.port or at.scheme}" for at in map(urlsplit, self._url.split(",")))
        return RegistryUnavailable(f"the schema registry at {hosts} does not answer ({reason}); check it and REGISTRY")

    def _with_references(self, registered: Registered) -> Schema:
        references: dict[str, str] = {}
        for reference in registered.references or ():
            named = self._with_references(
                self._client.get_version(str(reference.subject), int(reference.version or 0)).schema
            )
            references |= {**named.references, str(reference.name): named.text}
        return Schema(str(registered.schema_type), str(registered.schema_str), references)
