"""Rules and indexes of a profile on a real Kafka, Redis and Spark, behind a gateway, while workers are killed."""

import json
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import urllib3

from devkit.cluster.local_cluster import variables
from devkit.events import records
from devkit.topics import cut
from streamstate.cli.services import deployments
from streamstate.keys import MARKER_HEADER, Marker
from streamstate.settings import CommandSettings
from streamstate.verify.check import Check
from tests.deployment import Deployment
from tests.integration.driving import headers
from tests.integration.dying.model import DEATHS, died
from tests.integration.releases import PARTITIONS, Releases
from tests.integration.served import served
from tests.integration.terminal import Terminal
from tests.waiting import REQUEST_S, until, until_equal

PAGE = Path("docs/rules.md").read_text()
[YAML] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
[WEBHOOK] = re.findall(r"^```python\n(.*?)^for ", PAGE, re.DOTALL | re.MULTILINE)
[READ] = re.findall(r"^(\.venv/bin/python .* read .*)$", PAGE, re.MULTILINE)
INDEXED = "plays:    {count: all, over: [1h, ever], index: true}"
PLAYS = 120
USERS = range(1, 6)
TOPIC, SENT, NAME = "plays-of-alarms", "alarms-rules", "alarms"
CROSSED = {(user, rule, value) for user in USERS for rule, value in (("binge", 51), ("hundred", 100))}
FOUND = "where=plays_ever.ge.100"


class Serving:
    """The deployment with its API and a gateway."""

    def __init__(self, releases: Releases, deployment: Deployment, url: str) -> None:
        self._releases = releases
        self.deployment = deployment
        self.url = url
        until_equal(lambda: self.get("/v1/users/alarms/count?where=plays_ever.ge.1").status, 200, "the state")

    def get(self, path: str) -> Any:
        return urllib3.request("GET", f"{self.url}{path}", timeout=REQUEST_S, retries=False)

    def play(self, users: Any, times: int, first: int = 0) -> None:
        """Plays of `users` in turn."""
        for number in range(first, first + times):
            for user in users:
                key, value = records.event(user, 1, 2, 3, 1_000 + number)
                self._releases.out.produce(TOPIC, value, key)
        self._releases.out.flush()

    def events(self, path: str, last_id: str = "") -> Generator[tuple[str, Any]]:
        """The ids and contents of the events of a stream."""
        given = {"Last-Event-ID": last_id} if last_id else {}
        with urllib3.request(
            "GET", f"{self.url}{path}", headers=given, preload_content=False, timeout=REQUEST_S, retries=False
        ) as stream:
            assert stream.status == 200
            place = ""
            for line in stream:
                name, _, text = line.decode().rstrip("\n").partition(": ")
                place = text if name == "id" else place
                if name == "data":
                    yield place, json.loads(text)

    def folded(self) -> int:
        """The number of records in the state."""
        snapshots = self.deployment.store.read({partition: [] for partition in range(PARTITIONS)})
        return sum(snapshot.positions.get(TOPIC, 0) for snapshot in snapshots.values())

    def verified(self) -> tuple[int, Any, Any]:
        own = CommandSettings.model_validate({**self._releases.cluster.settings.model_dump(), "name": NAME})
        (of,) = deployments(own, ["profile"])
        report = Check(of.app, own).run()
        return report.records, report.differences, report.faults


@pytest.fixture
def serving(releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    text = YAML.replace("topic: listening-events", f"topic: {TOPIC}")
    indexed = re.sub(r"plays: .*", INDEXED, text, count=1)
    (file := tmp_path / "alarms.yaml").write_text(indexed)
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(file))
    releases.create(TOPIC, SENT, f"{NAME}-dlq")
    deployment = Deployment(releases.cluster, NAME, host=releases.make)
    deployment.package, deployment.service = "tests.integration", "dying"
    with served(deployment, "profile", tmp_path, PROFILE=str(file)) as url:
        yield Serving(releases, deployment, url)


def test_crossings_and_sizes_are_exact_through_killed_workers(serving: Serving, releases: Releases) -> None:
    binges = serving.events("/v1/rules/binge/stream", f"{TOPIC}:0=0")
    hundreds = serving.events("/v1/rules/alarms/hundred/stream", f"{TOPIC}:0=0")
    sizes = serving.events(f"/v1/users/alarms/count/stream?{FOUND}")
    assert next(sizes)[1] == {"count": 0, "exact": True}
    serving.play(USERS, PLAYS // 2)
    first = [next(binges) for _ in range(3)]
    binges.close()
    serving.play(USERS, PLAYS // 2, PLAYS // 2)
    rest = serving.events("/v1/rules/binge/stream", first[-1][0])
    seen = [*first, *(next(rest) for _ in range(2)), *(next(hundreds) for _ in USERS)]
    assert sorted((each["key"], each["rule"], each["value"]) for _, each in seen) == sorted(CROSSED)
    assert next(size for _, size in sizes if size["count"] == len(USERS))["exact"]
    assert sorted(serving.get(f"/v1/users/alarms/find?{FOUND}").json()["keys"]) == [*USERS]

    until(lambda: serving.folded() == len(USERS) * PLAYS, "the rest of the plays")
    assert died().stat().st_size >= DEATHS
    sent = releases.read(SENT)
    once = {Marker.decode(headers(record)[MARKER_HEADER]): json.loads(record.value() or b"") for record in sent}
    assert len(sent) > len(once) == len(CROSSED)
    assert {(each["key"], each["rule"], each["value"]) for each in once.values()} == CROSSED
    with closing(Terminal({}, variables({"KAFKA": releases.cluster.kafka.bootstrap}))) as terminal:
        typed = [json.loads(line.partition(":")[2]) for line in terminal.run(READ).text.splitlines()]
    assert sorted((each["key"], each["rule"], each["value"]) for each in typed) == sorted(CROSSED)
    found: dict[str, Any] = {}
    exec(compile(WEBHOOK, "docs/rules.md", "exec"), found)
    with closing(found["crossings"](releases.cluster.kafka.bootstrap, SENT, "webhook")) as crossings:
        read = [next(crossings) for _ in CROSSED]
    assert {(each["key"], each["rule"], each["value"]) for each in read} == CROSSED

    other = USERS[-1] + 1
    serving.play([other], 99)
    serving.play([other], 1)
    assert next(sizes)[1] == {"count": len(USERS) + 1, "exact": True}
    assert next(hundreds)[1]["key"] == next(rest)[1]["key"] == other
    until(lambda: serving.folded() == len(USERS) * PLAYS + 100, "all plays")
    assert serving.verified() == (len(USERS) * PLAYS + 100, [], [])

    sent = releases.read(SENT)
    ends = {(SENT, partition): 0 for partition in range(PARTITIONS)}
    for record in sent:
        place = SENT, record.partition() or 0
        ends[place] = max(ends[place], (record.offset() or 0) + 1)
    cut(releases.cluster.kafka.bootstrap, ends)
    _, differences, _ = serving.verified()
    causes = {headers(record)[MARKER_HEADER] for record in sent}
    assert [each.reason for each in differences] == [f"is missing in {SENT}"] * len(causes)
