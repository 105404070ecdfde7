"""All services restored at once, while their streams fold and users read."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any

import urllib3
from typer.testing import CliRunner

from streamstate.cli.main import app
from tests.integration.driving import SETTLED_S, Driving
from tests.waiting import until

ANSWERS = "/v1/users/1/metrics", "/v1/users/1/recommendations/artists", "/v1/regions"


def run(driving: Driving, *arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"], env=driving.environment())
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def statuses(driving: Driving, stop: Event) -> set[int]:
    found = set()
    while not stop.is_set():
        found |= {urllib3.request("GET", f"{driving.cluster.url}{path}", retries=False).status for path in ANSWERS}
    return found


def test_all_services_are_restored_under_load_and_equal_their_topics(driving: Driving, tmp_path: Path) -> None:
    driving.settle()
    folder = run(driving, "backup", str(tmp_path))["folder"]
    driving.feed(islice(driving.events, 3_000))
    driving.settle()
    stop = Event()
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(statuses, driving, stop)
        try:
            driving.feed(islice(driving.events, 1_000))
            restored = run(driving, "restore", folder, "--yes")
            driving.feed(islice(driving.events, 1_000))
            driving.settle()
            until(driving.cluster.ready, SETTLED_S, "the gateway to be ready")
        finally:
            stop.set()
        assert reading.result() <= {200, 503}
    assert {each["service"] for each in restored} == set(driving.cluster.addresses)
    moved = {each["service"] for each in restored if any(part["replaces"] for part in each["partitions"])}
    assert moved >= {"metrics", "names", "recommendations", "habits"}
    assert driving.differences() == []
    assert all(driving.get(path).status == 200 for path in ANSWERS)
