"""Records of a topic in any format, converted for its service."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from streamstate.app import Form, Source
from streamstate.errors import BadRecord, Misconfigured, RegistryUnavailable, UnknownSchema
from streamstate.formats import plain
from streamstate.formats.format import Format
from streamstate.formats.registered import framing
from streamstate.formats.registered.registry import Registry

VALUE = "value"
"""The default member for the value."""

BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""


@dataclass(frozen=True)
class FormatDecoder:
    """The `decode` of a source whose topic has another format than the service.

    decode, form: the source's own. value: the format of its values. mark: the bytes with which values may begin, and
    which are left out. guids: whether values may begin with the GUID of their schema. Errors name the id of the schema.
    """

    decode: Callable[[Any, bytes | None], Any]
    form: Form
    value: str
    names: Mapping[str, str]
    field: str
    message: str
    registry: Registry
    mark: bytes = b""
    guids: bool = False

    @classmethod
    def from_format(
        cls, decode: Callable[[Any, bytes | None], Any], form: Form, given: Format, registry: Registry
    ) -> "FormatDecoder":
        """The decoder for the declared format `given`."""
        names = {theirs: own for own, theirs in given.fields.items()}
        value, field, mark = given.value or _FORMATS[form], given.field or VALUE, BOM if given.bom else b""
        return cls(decode, form, value, names, field, given.message, registry, mark, given.header_ids)

    def __reduce__(self) -> Any:
        own = self.decode, self.form, self.value, self.names, self.field, self.message, self.registry
        return FormatDecoder, (*own, self.mark, self.guids)

    def __call__(self, key: Any, value: bytes | None) -> Any:
        """The service's event. Raises `RegistryUnavailable` when the schema is not known yet."""
        if value is None:
            return self.decode(key, None)
        try:
            return self.decode(key, self.read(value))
        except (MemoryError, RegistryUnavailable, UnknownSchema):
            raise
        except Exception as error:
            if not self._framed:
                raise
            # A single word says nothing: an unknown name, a missing key.
            reason = str(error) if " " in str(error) else f"{type(error).__name__}: {error}"
            number = framing.schema_id(value, guids=self.guids)
            raise BadRecord(f"a value of schema {number} does not fit the topic's format: {reason}") from error

    def read(self, value: bytes) -> bytes:
        """`value` in the service's form. Raises `BadRecord`, or any error of the format's own decoder."""
        content = self._content(value.removeprefix(self.mark))
        if self.names:
            content = plain.renamed(content, self.names)
        if self.form == "text":
            content = plain.picked(content, self.field)
        return plain.as_read(self.form, content)

    def require(self) -> None:
        """Raise `Misconfigured` when the declared class does not exist."""
        try:
            self._content  # noqa: B018, it is made when it is looked at
        except (ImportError, AttributeError) as error:
            msg = f"{self.message or self.value} cannot be imported ({error}): correct FORMATS, or install it"
            raise Misconfigured(msg) from error

    @property
    def _framed(self) -> bool:
        return self.value in framing.KINDS

    @cached_property
    def _content(self) -> Callable[[bytes], Any]:
        if not self._framed:
            return plain.SERDES[self.value][0]
        guids = self.guids
        if self.message:
            read_message: Callable[[bytes, int], Any] = framing.module(self.value).class_reader(self.message)
            return lambda value: read_message(value, framing.start(value, guids=guids))
        readers = framing.readers(self.registry, self.value)
        return lambda value: readers[framing.schema_id(value, guids=guids)](value)


@dataclass(frozen=True)
class KeyReader:
    """Reads the content of a key of the format `key`, of any schema. Raises as `FormatDecoder` does."""

    key: str
    registry: Registry
    guids: bool = False

    def __call__(self, raw: bytes) -> Any:
        if self.key not in framing.KINDS:
            return plain.SERDES[self.key][0](raw)
        number = framing.schema_id(raw, "key", guids=self.guids)
        return framing.readers(self.registry, self.key)[number](raw)


def waits(source: Source[Any, Any], key: bytes | None, value: bytes | None) -> str:
    """Why the unknown schema of a record cannot be fetched now; empty when no schema is missing."""
    try:
        if isinstance(source.decode, FormatDecoder) and value is not None:
            source.decode.read(value)
        source.key.decode(key)
    except RegistryUnavailable as error:
        return str(error)
    except Exception:  # noqa: BLE001, a record that cannot be read waits for nothing
        return ""
    return ""


_FORMATS: Mapping[Form, str] = {"json": "json", "text": "string"}
"""The format of each form."""
