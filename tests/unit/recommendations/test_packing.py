"""Plays as text and back."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.recommendations.packing import PlayBatch, pack, unpack
from streamstate.keys import LONG_MAX

ids = st.integers(0, 300) | st.integers(0, LONG_MAX) | st.sampled_from([0, 255, 256, 2**32, LONG_MAX])
rows = st.lists(st.tuples(ids, ids, ids, ids), min_size=1, max_size=50)


@given(st.integers(-1, 2**62), rows)
def test_what_is_packed_is_unpacked(time: int, plays: list[tuple[int, int, int, int]]) -> None:
    found = unpack(pack(PlayBatch(time, np.array(plays, np.int64))).encode())
    assert found.time == time
    assert found.ids.tolist() == [list(play) for play in plays]


def test_a_play_takes_as_many_bytes_as_its_ids() -> None:
    plays = np.random.default_rng(1).integers(0, (50_000, 20_000, 100_000, 1_000_000), (10_000, 4))
    assert len(pack(PlayBatch(0, plays))) / len(plays) < 14


@pytest.mark.parametrize("spoil", [lambda t: t[:-4], lambda t: t[:8], lambda _: b"", lambda t: b"\xff" + t[1:]])
def test_a_text_that_was_cut_or_changed_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    text = pack(PlayBatch(5, np.array([[1, 2, 3, 4], [5, 6, 7, 80_000]], np.int64))).encode()
    with pytest.raises(ValueError, match=r"log entry|[Bb]ase64|[Pp]adding|[Ii]nvalid"):
        unpack(spoil(text))
