"""Plays as short text: the entries of the log."""

import binascii
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_HEAD = struct.Struct("<q4B")  # the time, and how many bytes an id of each column takes

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlayBatch:
    """Some plays of a partition, in offset order.

    time: the stream time of the first play, in milliseconds.
    ids: int64 of shape (n, 4): user, artist, album, track.
    """

    time: int
    ids: Int64s


def pack(plays: PlayBatch) -> str:
    """Base64 of the columns, each as wide as its greatest id. Ids are from 0 to 2^63 - 1; at least one play."""
    columns = np.ascontiguousarray(plays.ids.T, "<i8")
    widths = [max(1, (int(greatest).bit_length() + 7) // 8) for greatest in columns.max(axis=1)]
    parts = [column.view(np.uint8).reshape(-1, 8)[:, :width] for column, width in zip(columns, widths, strict=True)]
    raw = _HEAD.pack(plays.time, *widths) + b"".join(part.tobytes() for part in parts)
    return binascii.b2a_base64(raw, newline=False).decode()


def unpack(text: bytes) -> PlayBatch:
    """The inverse of `pack`. Raises ValueError for another text."""
    raw = binascii.a2b_base64(text, strict_mode=True)
    if len(raw) < _HEAD.size:
        msg = "a log entry is cut off"
        raise ValueError(msg)
    time, *widths = _HEAD.unpack_from(raw)
    count, rest = divmod(len(raw) - _HEAD.size, max(1, sum(widths)))
    if rest or max(widths) > 8:
        msg = "the length of a log entry does not fit its columns"
        raise ValueError(msg)
    columns, at = np.zeros((len(widths), count, 8), np.uint8), _HEAD.size
    for column, width in zip(columns, widths, strict=True):
        column[:, :width] = np.frombuffer(raw, np.uint8, count * width, at).reshape(count, width)
        at += count * width
    return PlayBatch(time, columns.view("<i8")[:, :, 0].T)
