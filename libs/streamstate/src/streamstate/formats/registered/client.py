"""Calls to the schema registry, by Confluent's client."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

from streamstate.errors import Misconfigured, RegistryUnavailable, UnknownSchema
from streamstate.formats.registered.registry import Schema, SchemaId

TIMEOUT_S = 3
AWAY_S = 1.0
"""Seconds without calls to a registry that did not answer: every record might call it."""

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, INCOMPATIBLE, INVALID = 401, 403, 404, 409, 422
NO_CODE = -1
"""The code of an answer that is not the registry's own, but perhaps a proxy's."""

T = TypeVar("T")


class RegistryClient:
    """The registry at `url`, as of a `Registry`: `user` is user:password, `ca` a file, or both are empty."""

    def __init__(self, url: str, user: str, ca: str) -> None:
        self._url = url
        self._away, self._away_until = "", 0.0
        proofs = {name: value for name, value in (("basic.auth.user.info", user), ("ssl.ca.location", ca)) if value}
        self._client = SchemaRegistryClient({"url": url, "timeout": TIMEOUT_S, "max.retries": 0, **proofs})

    def fetch(self, number: SchemaId) -> Schema:
        """Raises as `Registry.schema` does."""
        get: Any = self._client.get_schema if isinstance(number, int) else self._client.get_schema_by_guid
        return self._ask(lambda: self._with_references(get(number)))

    def register(self, subject: str, schema: Schema) -> int:
        """Raises as `Registry.register` does. Only a new schema needs the right to write."""
        registered = Registered(schema.text, schema.kind)
        with suppress(UnknownSchema):
            return self._ask(lambda: self._client.lookup_schema(subject, registered)).schema_id or 0
        return self._ask(lambda: self._register(subject, registered))

    def latest(self, subject: str) -> tuple[int, Schema]:
        """Raises as `Registry.latest` does."""
        # The client keeps a version for ever.
        self._client.clear_latest_caches()  # type: ignore[no-untyped-call]
        try:
            found = self._ask(lambda: self._client.get_latest_version(subject))
            return found.schema_id or 0, self._ask(lambda: self._with_references(found.schema))
        except UnknownSchema as error:
            msg = f"the schema registry has no version of {subject}; register one, or leave out latest in FORMATS"
            raise Misconfigured(msg) from error

    def _register(self, subject: str, schema: Registered) -> int:
        try:
            return self._client.register_schema(subject, schema)
        except SchemaRegistryError as error:
            if error.http_status_code in (INCOMPATIBLE, INVALID):
                msg = (
                    f"the schema registry refuses the schema for {subject}: {error.error_message}; name "
                    "another topic in TOPICS, or change the compatibility of this subject"
                )
                raise Misconfigured(msg) from error
            if error.http_status_code in (UNAUTHORIZED, FORBIDDEN):
                msg = (
                    f"REGISTRY_USERNAME may not register schemas ({error.error_message}); register this schema for "
                    f"the subject {subject}, or give the right: {schema.schema_type} {schema.schema_str}"
                )
                raise Misconfigured(msg) from error
            raise

    def _ask(self, request: Callable[[], T]) -> T:
        if time.monotonic() < self._away_until:
            raise self._unavailable(self._away)
        try:
            return request()
        except Misconfigured:
            raise
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND and error.error_code != NO_CODE:
                raise UnknownSchema(str(error.error_message)) from error
            raise self._unavailable(f"answers {error.http_status_code}: {error.error_message}") from error
        except Exception as error:
            self._away, self._away_until = f"does not answer ({error})", time.monotonic() + AWAY_S
            raise self._unavailable(self._away) from error

    def _unavailable(self, answer: str) -> RegistryUnavailable:
        hosts = ", ".join(f"{at.hostname}:{at.port or at.scheme}" for at in map(urlsplit, self._url.split(",")))
        return RegistryUnavailable(f"the schema registry at {hosts} {answer}; check it and REGISTRY")

    def _with_references(self, registered: Registered) -> Schema:
        references: dict[str, str] = {}
        for reference in registered.references or ():
            named = self._with_references(
                self._client.get_version(str(reference.subject), int(reference.version or 0), deleted=True).schema
            )
            references |= {**named.references, str(reference.name): named.text}
        return Schema(str(registered.schema_type), str(registered.schema_str), references)
