"""Ranges of keys over all partitions of a topic, by a release of topics with an API of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
import urllib3

from devkit.child_process import LOCALHOST, free_port
from devkit.local_cluster import answers
from services.topics.model import app
from services.topics.settings import KeptSettings, KeptTopic
from streamstate.keys import LONG
from streamstate.settings import PREFIX
from tests.integration.releases import Releases
from tests.waiting import until

TOPIC, NAME, DEPLOYED = "ranged", "topics-ranged", "ranged-eu"
KEPT = KeptTopic(topic=TOPIC, key="long", value="json", keys=True)
COUNT = 120


def test_every_key_comes_once_and_in_order(releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = json.dumps([KEPT.model_dump(exclude_none=True)])
    # The recount reads it too.
    monkeypatch.setenv(f"{PREFIX}KEPT", kept)
    address, cluster, topics = f"{LOCALHOST}:{free_port()}", releases.cluster, {TOPIC: DEPLOYED}
    settings = {"KAFKA": cluster.kafka.bootstrap, "REDIS": cluster.redis.url, "NAME": NAME, "ADVERTISE": address}
    api = cluster.api("services.topics", NAME, address, tmp_path, settings | {"TOPICS": json.dumps(topics)})

    def page(**asked: Any) -> tuple[list[int], int | None]:
        query = "&".join(f"{name.strip('_')}={value}" for name, value in asked.items())
        answer = urllib3.request("GET", f"http://{address}/v1/topics/{TOPIC}?{query}", timeout=5, retries=False)
        assert answer.status == 200, answer.data
        found = answer.json()
        return found["keys"], found["next"]

    with releases.released(app(KeptSettings(kept=(KEPT,))), NAME, topics, ADVERTISE=address, KEPT=kept):
        try:
            for number in range(COUNT):
                releases.out.produce(DEPLOYED, b'{"n":%d}' % number, LONG.encode(number))
            releases.out.produce(DEPLOYED, None, LONG.encode(50))
            releases.out.flush()
            api.start()
            until(lambda: answers(f"http://{address}/readyz"), 120, "the API to be ready")
            expected = [number for number in range(COUNT) if number != 50]
            until(lambda: page(limit=1_000) == (expected, None), 60, "all keys")
            paged, cursor = page(limit=50)
            while cursor is not None:
                more, cursor = page(limit=50, cursor=cursor)
                paged += more
            assert paged == expected
            assert page(from_=48, to=53) == ([48, 49, 51, 52], None)
            assert page(order="desc", limit=2) == ([119, 118], 118)
            assert page(order="desc", limit=2, cursor=118) == ([117, 116], 116)
        finally:
            api.stop()
