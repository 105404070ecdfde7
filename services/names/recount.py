"""The replay of names, and the derived topic counted again."""

from collections.abc import Hashable
from dataclasses import replace

from confluent_kafka import Message

from services.names.model import APP, ENRICHED
from services.reference_decoding import FIELDS, document, listening_event
from streamstate.verify.recount import Published
from streamstate.verify.replay import replayed

Ids = tuple[int, ...]
"""The content of a play, in the order of `_ids`."""


def _ids(event: dict[str, int]) -> Ids:
    return tuple(event[name] for name in ("userId", "timestamp", *FIELDS.values()))


def _caused(message: Message) -> Hashable | None:
    event = None if message.topic() in FIELDS else listening_event(message)
    return None if event is None else (message.key(), _ids(event))


def _content(message: Message) -> Hashable:
    return message.key(), _ids(document(message.value()) or {})


RECOUNT = replace(replayed(APP), published=Published(ENRICHED, _caused, _content))
