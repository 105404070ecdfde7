"""What only a crash of a whole machine does to Redis: the end of its file is gone."""

import time
from random import Random

from devkit.redis_server import Redis


def kill_losing_a_second(server: Redis, draw: Random) -> None:
    """kill -9, after which a part of what was written in the last second is lost, as `appendfsync everysec` allows."""
    file = max((server.log.parent / "appendonlydir").glob("*.incr.aof"))
    kept = file.stat().st_size
    time.sleep(1)
    server.kill()
    with file.open("r+b") as log:
        log.truncate(draw.randint(kept, file.stat().st_size))
