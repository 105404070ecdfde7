"""What an operator does about a state while its stream runs: skip a record, replay a letter, build anew."""

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from devkit.cluster.local_cluster import variables
from streamstate.cli.main import app
from streamstate.kafka.admin import Topics
from streamstate.kafka.dlq.records import RECEIPT_HEADER, TOPIC_ID_HEADER
from streamstate.kafka.producer import Headers, producer
from streamstate.releases.command_lock import command_lock
from streamstate.state.deletion import StateDeleter
from streamstate.state.operations import Fields
from streamstate.state.redis_reads import tag
from streamstate.state.store import Snapshot
from tests.deployment import Deployment
from tests.integration.fragile.model import APP, COUNTS, FIXED, LATER, POISON, TOPIC
from tests.integration.releases import Releases
from tests.serving import Served, new_address
from tests.waiting import until

PACKAGE = "tests.integration"
PARTITIONS = 4


class Fragile(Deployment):
    """The service, deployed beside the cluster; each test has a partition of its topic for itself."""

    def __init__(self, releases: Releases) -> None:
        super().__init__(releases.cluster, APP.name, host=releases.make)
        self.package, self.service, self.topic = PACKAGE, APP.name, TOPIC
        self.fixed = Path(os.environ[FIXED])
        self.create(PARTITIONS)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "KAFKA": self.cluster.kafka.bootstrap,
            "REDIS": self.redis,
            "PACKAGE": f"{PACKAGE}.{APP.name}",
        }

    def send_values(self, partition: int, *values: bytes) -> None:
        out = producer(self.cluster.kafka.bootstrap)
        for value in values:
            out.produce(TOPIC, value, b"key", partition)
        out.flush()

    def die_replaying(self, partition: int, offset: int) -> None:
        """The records of a replay that is killed before the end of its transaction."""
        bootstrap = self.cluster.kafka.bootstrap
        out = producer(bootstrap, transactional_id=f"{APP.name}-replay")
        out.begin_transaction()
        out.produce(TOPIC, LATER, b"key", partition)
        topic_id = Topics(bootstrap).origin(TOPIC).id.encode()
        headers: Headers = [(TOPIC_ID_HEADER, topic_id), (RECEIPT_HEADER, b"0:0")]
        out.produce(APP.dead_letters, None, f"{TOPIC}:{partition}:{offset}".encode(), headers=headers)
        out.flush()

    def state(self, partition: int) -> Snapshot:
        return self.store.read({partition: [Fields(COUNTS)]})[partition]

    def reached(self, partition: int, offset: int, **counts: int) -> None:
        """Wait until the state is at `offset` with these `counts`, and recount the state."""
        until(lambda: self.state(partition).positions.get(TOPIC, 0) == offset, f"offset {offset}")
        assert self.state(partition).values == [counts]
        # A stream reports its end of failures after its first batch.
        until(lambda: not self.command("status")["faults"], "a stream without faults")
        assert self.command("verify", status=0)["differences"] == []

    def refusal(self, command: str, *arguments: str) -> str:
        """The line with which the command ends."""
        result = self.run(command, *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        return str(result.stderr)


@pytest.fixture(scope="module")
def fragile(releases: Releases) -> Iterator[Fragile]:
    made = Fragile(releases)
    made.stream()
    yield made
    made.close()


def test_a_record_that_stops_the_stream_is_skipped_for_good(fragile: Fragile) -> None:
    fragile.send_values(0, b"good", POISON, b"good")
    until(lambda: "the query stopped" in fragile.started[0].tail(50), "the stream to stop")
    assert fragile.state(0).positions.get(TOPIC, 0) == 0
    assert fragile.command("skip", TOPIC, "0", "1", "--reason", "kills", "--dry-run", status=0)["dry_run"]
    skipped = fragile.command("skip", TOPIC, "0", "1", "--reason", "kills the worker", status=0)
    assert (skipped["position"], skipped["reason"]) == (0, "kills the worker")
    fragile.reached(0, 3, good=2)
    letters = fragile.command("dlq list", status=0)
    assert letters["by_reason"] == {"skip: BadRecord": 1}
    assert letters["by_topic_and_partition"] == {f"{TOPIC}:0": 1}
    assert letters["latest"][0]["message"] == "kills the worker"

    assert "is committed up to 3" in fragile.refusal("skip", TOPIC, "0", "1", "--reason", "again")
    assert "its offsets are from 0 to before 3" in fragile.refusal("skip", TOPIC, "0", "3", "--reason", "not there yet")
    fragile.command("reset", "--partition", "0", "--yes", "--live", status=0)
    fragile.reached(0, 3, good=2)


CHANGES = [("throttle", "100"), ("dlq replay", "--yes"), ("reset", "--yes", "--live")]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0])
def test_a_change_beside_another_is_refused(fragile: Fragile, change: tuple[str, ...]) -> None:
    with command_lock(fragile.client, APP.name, "promote"):
        assert "`streamstate promote` has changed fragile since" in fragile.refusal(*change)


def test_a_reset_is_refused_for_a_state_that_becomes_live_during_the_question(fragile: Fragile) -> None:
    fragile.send_values(3, b"good")
    until(lambda: fragile.state(3).positions.get(TOPIC) == 1, "the record to be folded")
    asked = count()

    def system(_environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        owners = [{"partition": 3, "address": fragile.state(3).owner}]
        yield json.dumps({"services": [{"live": next(asked) > 0, "owners": owners}]}).encode()

    address = new_address()
    gateway, settings = Served(address, system), {**fragile.settings, "GATEWAY": f"http://{address}"}
    reset = ["reset", APP.name, "--partition", "3"]
    result = CliRunner().invoke(app, reset, input="y\n", env=variables(settings))
    gateway.stop()
    assert "Delete it?" in result.output
    assert f"the gateway http://{address} answers from 1 partitions of the state" in result.output
    assert fragile.state(3).values == [{"good": 1}]


def test_a_dead_letter_is_replayed_once_and_counts_once(fragile: Fragile) -> None:
    fragile.send_values(1, b"good", LATER, b"good")
    fragile.reached(1, 3, good=2)
    listed = fragile.command("dlq list", "--reason", "this RELEASE", status=0)
    [letter] = listed["latest"]
    place = str(letter["partition"]), str(letter["offset"])
    assert (letter["topic"], letter["of_partition"], letter["of_offset"]) == (TOPIC, 1, 1)
    shown = fragile.command("dlq show", *place, status=0)
    assert (shown["key"], shown["value"], shown["complete"], shown["replayed"]) == ("key", "later", True, False)

    fragile.fixed.touch()
    fragile.die_replaying(1, 1)
    chosen = ["--partition", place[0], "--offset", place[1]]
    assert fragile.command("dlq replay", *chosen, "--dry-run", status=0)["topics"] == {TOPIC: 1}
    assert fragile.run("dlq replay", *chosen).exit_code == 1
    assert fragile.command("dlq replay", *chosen, "--yes", status=0)["topics"] == {TOPIC: 1}
    # The markers of the two transactions have offsets too.
    fragile.reached(1, 7, good=2, later=1)
    again = fragile.command("dlq replay", *chosen, "--yes", status=0)
    assert (again["topics"], again["left_out"]) == ({}, {"replayed before": 1})
    assert fragile.command("dlq list", "--reason", "this release", status=0)["replayed"] == 1
    assert fragile.command("dlq show", *place, status=0)["replayed"]

    fragile.command("reset", "--partition", "1", "--yes", "--live", status=0)
    fragile.reached(1, 7, good=2, later=1)
    fragile.command("dlq replay", *chosen, "--yes", "--again", status=0)
    fragile.reached(1, 9, good=2, later=2)


def test_a_reset_that_was_killed_is_refused_until_it_is_run_again(fragile: Fragile) -> None:
    fragile.send_values(2, b"a", b"b", b"a")
    fragile.reached(2, 3, a=2, b=1)
    planned = fragile.command("reset", "--partition", "2", "--dry-run", status=0)
    assert planned["partitions"] == [{"partition": 2, "keys": 2, "positions": {TOPIC: 3}, "begins": {TOPIC: 0}}]
    assert fragile.state(2).values == [{"a": 2, "b": 1}]

    def killed(_keys: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        StateDeleter(fragile.client, APP.name).run([2], killed)
    report = fragile.command("status", status=1)
    assert (
        "STREAMSTATE_PACKAGE=tests.integration.fragile streamstate reset fragile --partition 2`" in report["faults"][0]
    )
    fragile.send_values(2, b"c")
    fragile.command("reset", "--partition", "2", "--yes", status=0)
    fragile.reached(2, 4, a=2, b=1, c=1)


def test_a_partition_that_holds_half_a_commit_holds_up_no_other_and_is_folded_as_soon_as_it_is_reset(
    fragile: Fragile,
) -> None:
    half, other = fragile.state(2), fragile.state(0)
    fragile.client.hincrby(tag(APP.name, 2), "begun", 1)
    fragile.send_values(2, b"late")
    fragile.send_values(0, b"new")
    at = other.positions[TOPIC] + 1
    until(lambda: fragile.state(0).positions[TOPIC] == at, "the other partition to be folded")
    report = fragile.command("status", status=1)
    assert (
        "STREAMSTATE_PACKAGE=tests.integration.fragile streamstate reset fragile --partition 2`" in report["faults"][0]
    )
    fragile.command("reset", "--partition", "2", "--yes", status=0)
    fragile.reached(2, half.positions[TOPIC] + 1, **half.values[0], late=1)


def test_half_a_commit_that_changed_nothing_is_mended_without_a_rebuild(fragile: Fragile) -> None:
    def said(text: str) -> bool:
        return any(text in fault for fault in fragile.command("status", status=1)["faults"])

    at, counts = fragile.state(2).positions.get(TOPIC, 0), tag(APP.name, 2) + f":{COUNTS}"
    fragile.send_values(2, b"whole")
    until(lambda: fragile.state(2).positions.get(TOPIC, 0) > at, "the record to be folded")
    whole = fragile.state(2)
    fragile.client.hincrby(tag(APP.name, 2), "begun", 1)
    fragile.client.hincrby(counts, "whole", 1)
    report = fragile.command("verify", "--mend", status=1)
    assert [difference["place"] for difference in report["differences"]] == [counts]
    assert "stopped half way" in report["faults"][0]
    fragile.send_values(2, b"after")
    until(lambda: said("stream-0 does not fold"), "the stream to refuse the partition")
    assert said("streamstate verify fragile --mend`")
    fragile.client.hincrby(counts, "whole", -1)
    report = fragile.command("verify", "--mend", status=0)
    assert (report["faults"], report["differences"]) == ([], [])
    fragile.reached(2, whole.positions[TOPIC] + 1, **whole.values[0], after=1)
