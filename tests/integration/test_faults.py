"""A short selection of `make faults`: what must hold before anything lands."""

import threading
from itertools import islice

from tests.faults.losses import kill_losing_a_second
from tests.integration.driving import Driving


def test_nothing_is_lost_or_doubled_when_redis_loses_its_last_second(driving: Driving) -> None:
    sending = threading.Thread(target=lambda: driving.feed(islice(driving.events, 20_000)))
    sending.start()
    kill_losing_a_second(driving.cluster.redis, driving.draw)
    driving.cluster.redis.start()
    sending.join()
    driving.settle()
    assert driving.differences() == []
