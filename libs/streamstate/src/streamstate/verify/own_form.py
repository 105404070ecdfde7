"""Records of a deployment's topics, in the form and under the topic names that a service declares."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import Message

from streamstate.app import App, Source
from streamstate.errors import RegistryUnavailable
from streamstate.formats.reading import FormatDecoder
from streamstate.keys import KeyCodec
from streamstate.verify.recount import Recounted

Convert = Callable[[bytes, bytes | None], tuple[bytes, bytes | None]]
"""Key and value of a record in the topic's format → in the service's."""


def of_deployment(recounted: Recounted, own: App, app: App) -> Recounted:
    """`recounted` for the deployment `app` of the service's app `own`."""
    published = recounted.published
    return replace(
        recounted,
        service=app.name,
        topics=app.topics,
        published=published and replace(published, topic=app.output(published.topic)),
        dead_letters=app.dead_letters,
        as_declared=OwnForm(own, app),
    )


class OwnForm:
    """Converts a record of a topic of `app`, a deployment of the service's app `own`."""

    def __init__(self, own: App, app: App) -> None:
        self._topics: dict[str, tuple[str, Convert | None]] = {
            source.topic: (declared.topic, _conversion(declared.key, source))
            for declared, source in zip(own.sources, app.sources, strict=True)
        }
        for topic, derived in app.emits.items():
            same = derived == own.emits[topic]
            self._topics[app.output(topic)] = topic, None if same else derived.decode

    def __call__(self, message: Message) -> Message | None:
        """The same record as declared, None when it cannot be read. Raises `RegistryUnavailable`."""
        topic, convert = self._topics[str(message.topic())]
        key, value = message.key(), message.value()
        try:
            if convert:
                key, value = convert(key or b"", value)
        except RegistryUnavailable:
            raise
        except Exception:  # noqa: BLE001, whatever is wrong with it, the record must be among the dead letters
            return None
        if not convert and topic == message.topic():
            return message
        return Message(
            topic=topic,
            partition=message.partition(),
            offset=message.offset(),
            key=key,
            value=value,
            headers=message.headers(),
            timestamp=message.timestamp(),
        )


def _conversion(own: KeyCodec[Any], source: Source[Any, Any]) -> Convert | None:
    """The conversion of the records of `source` to keys of the codec `own`; None without a difference."""
    if source.key is own and not isinstance(source.decode, FormatDecoder):
        return None
    return partial(_converted, own, source)


def _converted(
    own: KeyCodec[Any], source: Source[Any, Any], key: bytes, value: bytes | None
) -> tuple[bytes, bytes | None]:
    converted = key if source.key is own else own.encode(source.key.decode(key))
    if value is None or not isinstance(source.decode, FormatDecoder):
        return converted, value
    return converted, source.decode.read(value)
