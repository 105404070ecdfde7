"""API keys: a file with one JSON object a line holds the hash of each key, its scopes and its limits."""

import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from streamstate.errors import Misconfigured
from streamstate.view import Scope

PREFIX = "ssk_"
"""The prefix of each key, by which scanners for leaked secrets recognize keys."""

NAME_PATTERN = "^[a-z0-9][a-z0-9._-]{0,62}$"


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One key. Keys of the same name are one caller: both count towards the same limits.

    sha256: of the key, in hexadecimal digits. A key is 256 random bits, so no slow hash is needed.
    requests_per_s, cost_per_s: limits; None for the limits in the gateway's settings.
    """

    name: Annotated[str, Meta(pattern=NAME_PATTERN)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)]
    requests_per_s: Annotated[int, Meta(ge=1)] | None = None
    cost_per_s: Annotated[int, Meta(ge=1)] | None = None


Keys = Mapping[str, Key]
"""Keys by their hash."""

_decode = msgspec.json.Decoder(Key).decode


def generate() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest(key: str) -> str:
    """The hash of a key in a key file."""
    return sha256(key.encode()).hexdigest()


def parse(content: bytes) -> Keys:
    """The keys of a file, without empty lines and comments (#). Raises `Misconfigured`."""
    keys: dict[str, Key] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip() or line.startswith(b"#"):
            continue
        try:
            key = _decode(line)
        except msgspec.DecodeError as error:
            msg = f"line {number} is no key ({error}); `streamstate keys new` prints a line"
            raise Misconfigured(msg) from error
        if key.sha256 in keys:
            msg = f"line {number} has the hash of another line; remove one of them"
            raise Misconfigured(msg)
        keys[key.sha256] = key
    if not keys:
        msg = "there is no key; `streamstate keys new` prints a line"
        raise Misconfigured(msg)
    return keys


def find(keys: Keys, given: str) -> Key | None:
    """The entry of `keys` for the key `given`."""
    return keys.get(digest(given))
