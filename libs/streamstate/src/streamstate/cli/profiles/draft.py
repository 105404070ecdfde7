"""`streamstate profile draft`: the file of a profile over a topic, from its last records."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from streamstate.cli import output
from streamstate.cli.profiles import advice
from streamstate.cli.profiles.check import last_records
from streamstate.cli.profiles.declared import Declared
from streamstate.errors import Declined
from streamstate.keys import CODECS, MURMUR2
from streamstate.processing.decode import RawRecord
from streamstate.processing.placement import MIXED, fitting
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import RESERVED, field_type
from streamstate.profile.file import parse
from streamstate.profile.measure import MeasureWords
from streamstate.settings import CommandSettings, load

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Name in Kafka.")]
Records = Annotated[int, typer.Option(min=1, help="Number of records.")]
To = Annotated[Path | None, typer.Option(metavar="FILE", help="Default: the topic's name, .yaml.")]

_COUNT = MeasureWords(count="all")


def draft(topic: Topic, *, records: Records = 1_000, to: To = None) -> None:
    """Write the YAML file of a profile over a topic: keys, partitioner and fields as in its last records."""
    name = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-0123456789")[:40] or "profile"
    path = to or Path(f"{name}.yaml")
    if path.exists():
        msg = f"{path} is there already: name another file by --to"
        raise Declined(msg)
    declared = Declaration(name, topic, "bytes", f"/v1/{name}/<key>", {"events": _COUNT})
    of = Declared(declared, load(CommandSettings))
    begins, ends = of.bounds()
    read = last_records(of, begins, ends, records)
    if not read:
        msg = f"{topic} has no records: send some, and draft then"
        raise Declined(msg)
    text = drafted(of, read, len(ends))
    parse(text)
    path.write_text(text)
    output.say(f"{text}\nwritten to {path}; next: streamstate profile check {path}")


def drafted(of: Declared, read: Mapping[int, Sequence[RawRecord]], partitions: int) -> str:
    """The content of a file, from the records `read` by partition. Raises `Declined` for unreadable values."""
    fields, others = fields_of(advice.members(of.source, (value for raw in read.values() for *_, value in raw)))
    if not fields:
        msg = f"no value of {of.source.topic} has fields: name the format of the topic in STREAMSTATE_FORMATS"
        raise Declined(msg)
    key, partitioner, said = _key(of, read, partitions, fields)
    number, declared = sum(map(len, read.values())), of.declaration
    lines = [
        f"# From the last {number:,} records of {declared.topic}.",
        *(f"# {line}" for line in said),
        f"name: {declared.name}",
        f"topic: {declared.topic}",
        f"key: {key}",
        f"# Where keys are users: /v1/users/<key>/{declared.name}",
        f"path: {declared.path}",
        *([f"partitioner: {partitioner}"] if partitioner != MURMUR2 else []),
        "fields:",
        *(f"  {_flow({name: words})[1:-1]}" for name, words in fields.items()),
        *(f"  # left out: {each}" for each in others),
        "measures:",
        "  events: {count: all, over: [1h, 7d, ever]}",
    ]
    top = next((name for name, words in fields.items() if words == "str"), "")
    if top:
        lines.append(f"  tops:   {_flow({'top': 5, 'of': top, 'over': '7d'})}")
    return "\n".join(lines) + "\n"


def fields_of(members: advice.Members) -> tuple[dict[str, Any], list[str]]:
    """The fields of the members, in the words of a file; and the members that are none, with the reason."""
    fields: dict[str, Any] = {}
    others: list[str] = []
    for path, kinds in members.items():
        kind, name = advice.declarable(kinds), path.replace(".", "_")
        name += "_" * (name in RESERVED)
        try:
            field_type(name, kind)
        except ValueError:
            if "object" not in kinds:
                others.append(f"{path}, {' and '.join(kinds) or 'always null'}")
            continue
        fields[name] = kind if name == path else {"type": kind, "member": path}
    return fields, others


def _key(
    of: Declared, read: Mapping[int, Sequence[RawRecord]], partitions: int, fields: Mapping[str, Any]
) -> tuple[str, str, list[str]]:
    """The words for key and partitioner, and what to know of them."""
    keys = [(partition, key) for partition, raw in read.items() for *_, key, _ in raw]
    if all(key for _, key in keys):
        types = [*advice.key_types({key for _, key in keys}), "bytes"]
        partitioner = fitting(replace(of.source, key=CODECS[types[0]]), keys, partitions)
        if partitioner != MIXED:
            also = f"The keys look like {types[0]}" + (f", or {', '.join(types[1:-1])}." if types[1:-1] else ".")
            return types[0], partitioner, [also]
        why = "The keys are placed by several partitioners"
    else:
        why = "Records have no keys"
    usable = [name for name, kind in fields.items() if kind in ("int", "str", "int(text)")]
    name = next((name for name in usable if re.search("id$", name, re.IGNORECASE)), (usable or [""])[0])
    if not name:
        msg = f"{why.lower()}, and no field can be one: the producer must write keys"
        raise Declined(msg)
    return f"value.{name}", MURMUR2, [f"{why}: choose the member that is the key (docs/profile.md)."]


def _flow(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(content, default_flow_style=True, width=10_000, sort_keys=False).strip()
