"""Server-sent events: the received events of a series, for slow clients and any start."""

import pytest

from streamstate.web.http.events import Streams
from streamstate.web.http.problems import Problem

LONG_S = 60.0


def test_there_are_no_more_streams_than_may_be() -> None:
    streams = Streams(1, LONG_S)
    with streams.place(), pytest.raises(Problem, match="ask again") as refused, streams.place():
        pass
    assert refused.value.status == 503
    with streams.place():
        pass
