"""The state of one service in Redis: the names of its keys, and their values together with the offsets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import deployment_key, live_key, tag, trouble_key

Entries = list[tuple[int, dict[bytes, bytes]]]

Stored = bytes | dict[bytes, bytes] | dict[bytes, float] | Entries
"""A value in Redis: string, hash, sorted set with its scores, stream with the numbers of its entries."""

_SCANNED = 2_000


@dataclass(frozen=True)
class Look:
    """Some keys of one partition at one moment: `held` is the partition's own hash, `values` are in the keys' order."""

    held: Mapping[str, str]
    values: Sequence[Stored | None]

    @property
    def positions(self) -> dict[str, int]:
        """The next offsets by topic."""
        return {
            name.removeprefix("offset:"): int(value) for name, value in self.held.items() if name.startswith("offset:")
        }


class RedisState:
    """The keys of `service`, whichever process wrote them."""

    def __init__(self, client: Client, service: str) -> None:
        self._client = client
        self._service = service
        script = resources.files("streamstate.state").joinpath("lua", "look.lua").read_text()
        self._look = client.register_script(script)

    def tag(self, partition: int) -> str:
        return tag(self._service, partition)

    def keys(self, partition: int) -> Iterator[str]:
        """The keys of `partition` without its tag, as found by a scan: keys may appear or vanish meanwhile."""
        tag = f"{self.tag(partition)}:"
        for key in self._scan(f"{tag}*"):
            yield key.removeprefix(tag)

    def strays(self, partitions: int) -> Iterator[str]:
        """The keys outside all partitions."""
        tags = {self.tag(partition) for partition in range(partitions)}
        outside = live_key(self._service), deployment_key(self._service)
        for key in self._scan(f"{{{self._service}:*"):
            if key.startswith(trouble_key(self._service, "")) or key in outside:
                continue
            tag, brace, rest = key.partition("}")
            if f"{tag}{brace}" not in tags or (rest and rest[0] != ":"):
                yield key

    def read(self, partition: int, keys: Sequence[str]) -> Look:
        """The values of `keys` and their offsets, read atomically."""
        tag = self.tag(partition)
        names = [f"{tag}:{key}".encode(errors="surrogateescape") for key in keys]
        held, *typed = self._look(keys=[tag, *names])
        fields = {name.decode(): value.decode() for name, value in _pairs(held)}
        return Look(fields, [_stored(kind, value) for kind, value in typed])

    def _scan(self, pattern: str) -> Iterator[str]:
        for key in self._client.scan_iter(match=pattern, count=_SCANNED):
            yield key.decode(errors="surrogateescape")


def _pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _stored(kind: bytes, value: Any) -> Stored | None:
    match kind:
        case b"none":
            return None
        case b"string":
            return bytes(value)
        case b"hash":
            return dict(_pairs(value))
        case b"zset":
            return {member: float(score) for member, score in _pairs(value)}
        case b"stream":
            return [(int(number.partition(b"-")[0]), dict(_pairs(fields))) for number, fields in value]
        case _:
            return b"a value of the type " + kind
