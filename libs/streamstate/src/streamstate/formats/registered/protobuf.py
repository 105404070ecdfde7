"""Protobuf: messages of classes that are built from the registry's schema, or imported from a module."""

import base64
import binascii
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto as File
from google.protobuf.message import DecodeError, Message

from streamstate.errors import BadRecord
from streamstate.formats.registered.registry import Schema

FILE = "value.proto"

_CONFLUENT = "confluent_kafka.schema_registry.confluent"
_BUILT_IN = ("google.protobuf", "google.type", _CONFLUENT, f"{_CONFLUENT}.type", f"{_CONFLUENT}.types")

_Get = Callable[[Message], Any]


def reader(schema: Schema, start: int) -> Callable[[bytes], Any]:
    """Reads a value from its byte `start` on, where its message is named."""
    file = _file(schema)
    readers: dict[tuple[int, ...], Callable[[bytes], Any]] = {}

    def read(raw: bytes) -> Any:
        indexes, at = message_indexes(raw, start)
        if indexes not in readers:
            readers[indexes] = _message_reader(message_factory.GetMessageClass(_at(file, indexes)))
        return readers[indexes](raw[at:])

    return read


def class_reader(name: str) -> Callable[[bytes, int], Any]:
    """The same for messages of one class, `module:Class`, from a position on.

    Raises ImportError or AttributeError without it.
    """
    module, _, attribute = name.partition(":")
    read_message = _message_reader(getattr(import_module(module), attribute))
    return lambda raw, start: read_message(raw[message_indexes(raw, start)[1] :])


def writer(schema: Schema) -> Callable[[Any], bytes]:
    """Writes an object as the first message of `schema`, with the message's index; raises for an unfit object."""
    kind = message_class(schema, (0,))

    def write(value: Any) -> bytes:
        given = {name: each for name, each in value.items() if each is not None}
        return b"\0" + kind(**given).SerializeToString(deterministic=True)

    return write


def message_class(schema: Schema, indexes: tuple[int, ...]) -> type[Message]:
    """The class of the message at these indexes of the file, outermost first."""
    return message_factory.GetMessageClass(_at(_file(schema), indexes))


def message_indexes(raw: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The indexes of a value's message in its schema, outermost first, and the position of the message."""
    if raw[start : start + 1] == b"\0":
        return (0,), start + 1
    count, at = _varint(raw, start)
    indexes = []
    for _ in range(count):
        index, at = _varint(raw, at)
        indexes.append(index)
    return tuple(indexes), at


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(raw):
        number |= (raw[at] & 0x7F) << shift
        shift += 7
        at += 1
        if raw[at - 1] < 0x80:
            # Zigzag.
            return (number >> 1) ^ -(number & 1), at
    msg = "the value ends before its message begins"
    raise BadRecord(msg)


def _at(file: FileDescriptor, indexes: tuple[int, ...]) -> Descriptor:
    messages = list(file.message_types_by_name.values())
    try:
        message = messages[indexes[0]]
        for index in indexes[1:]:
            message = message.nested_types[index]
    except IndexError as error:
        msg = f"the schema has no message {list(indexes)}"
        raise BadRecord(msg) from error
    return message


def _message_reader(kind: type[Message]) -> Callable[[bytes], Any]:
    members = _members(kind.DESCRIPTOR)

    def read(raw: bytes) -> Any:
        try:
            message = kind.FromString(raw)
        except DecodeError as error:
            raise BadRecord(f"the value is no {kind.DESCRIPTOR.full_name}") from error
        return members(message)

    return read


@lru_cache
def _members(message: Descriptor) -> _Get:
    """The members of messages as an object. Unset members are omitted, or have their default without presence."""
    always = {field.name: _member(field) for field in message.fields if not field.has_presence}
    present = {field.name: _member(field) for field in message.fields if field.has_presence}

    def members(value: Message) -> dict[str, Any]:
        found = {name: get(value) for name, get in always.items()}
        return found | {name: get(value) for name, get in present.items() if value.HasField(name)}

    return members


def _member(field: FieldDescriptor) -> _Get:
    name, convert = field.name, _conversion(field)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        of_value = _conversion(entry.fields_by_name["value"])
        return lambda value: {str(key): of_value(each) for key, each in getattr(value, name).items()}
    if field.is_repeated:
        return lambda value: [convert(each) for each in getattr(value, name)]
    if convert is _as_it_is:
        return lambda value: getattr(value, name)
    return lambda value: convert(getattr(value, name))


def _as_it_is(value: Any) -> Any:
    return value


def _conversion(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return lambda value: _members(field.message_type)(value)  # noqa: PLW0108, messages may contain themselves
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name if number in names else number
    return _as_it_is


def _file(schema: Schema) -> FileDescriptor:
    """The compiled schema: the text of a .proto file, or its descriptor in base64."""
    described = _compiled(schema)
    files, pool = {**built_in(), **{file.name: file for file in described}}, descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str) -> None:
        if name in files and name not in added:
            added.add(name)
            for dependency in files[name].dependency:
                add(dependency)
            pool.Add(files[name])

    add(described[-1].name)
    return pool.FindFileByName(described[-1].name)


@lru_cache
def built_in() -> Mapping[str, File]:
    """The files that schemas import without a reference, by name; clients of the registry bundle them."""
    packages = (import_module(package) for package in _BUILT_IN)
    modules = (f"{package.__name__}.{each.name}" for package in packages for each in iter_modules(package.__path__))
    described = (import_module(module).DESCRIPTOR for module in modules if module.endswith("_pb2"))
    return {each.name: File.FromString(each.serialized_pb) for each in described}


def _compiled(schema: Schema) -> list[File]:
    """The compiled files of the registry, with the file of `schema` last."""
    try:
        texts = (*schema.references.values(), schema.text)
        return [File.FromString(base64.b64decode(text, validate=True)) for text in texts]
    except (binascii.Error, DecodeError, ValueError):
        return _compiled_text(schema)


def _compiled_text(schema: Schema) -> list[File]:
    with TemporaryDirectory(prefix="proto-") as folder:
        for name, text in {**schema.references, FILE: schema.text}.items():
            file = Path(folder, name)
            if not file.resolve().is_relative_to(Path(folder).resolve()):
                msg = f"the schema imports {name}, which is no relative path"
                raise BadRecord(msg)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        known, output = Path(folder, "known.bin"), Path(folder, "described.bin")
        known.write_bytes(descriptor_pb2.FileDescriptorSet(file=built_in().values()).SerializeToString())
        files = [f"-I{folder}", f"--descriptor_set_in={known}", "--include_imports", f"--descriptor_set_out={output}"]
        # A process of its own: the compiler reports syntax errors on standard error only.
        command = [sys.executable, "-m", "grpc_tools.protoc", *files, FILE]
        compiled = subprocess.run(command, check=False, capture_output=True, text=True)
        if compiled.returncode:
            msg = f"the Protobuf compiler refuses the schema: {compiled.stderr.strip()}"
            raise BadRecord(msg)
        return [*descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file]
