"""Topics that get wider, are made anew, are cut before or after they were read: F13, F14, F15 and retention."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import urllib3
from confluent_kafka.admin import NewPartitions

from devkit.cluster.local_cluster import LocalCluster
from streamstate.processing.fitness import LOST
from tests.faults.conftest import Trying
from tests.faults.deployed import PLAYS, USERS, Deployed
from tests.waiting import until

NOTICED_S = 30
UNREAD = 10_000


@contextmanager
def deployed(cluster: LocalCluster, name: str, partitions: int = 1) -> Iterator[Deployed]:
    deployment = Deployed(cluster, name, partitions)
    try:
        yield deployment
    finally:
        deployment.close()


def refused_to_read(deployment: Deployed, reason: str) -> bool:
    """Whether the API says `reason` for every user."""
    # Else urllib3 waits as long as a 503 says, and asks again.
    ask = partial(urllib3.request, "GET", timeout=10, retries=False)
    answers = [ask(f"{deployment.url}/v1/users/{user}/metrics") for user in USERS]
    return all(answer.status == 503 and reason in answer.json()["detail"] for answer in answers)


def widen(deployment: Deployed, partitions: int) -> float:
    """Give the topic so many partitions; the seconds until the stream has refused, which the API does then, too."""
    deployment.admin.create_partitions([NewPartitions(deployment.topic, partitions)])[deployment.topic].result()
    added, reason = time.monotonic(), f"has {partitions} partitions and had {deployment.partitions}"
    deployment.running.refused(reason)
    seconds = time.monotonic() - added
    until(lambda: refused_to_read(deployment, reason), "the API to refuse")
    return seconds


def test_f13_partitions_are_added(trying: Trying, servers: LocalCluster) -> None:
    """The state is built from a wider copy then, as the refusal says."""
    noticed_s = []
    with trying("F13", "partitions added: refused; rebuilt from a copy with more partitions") as run:
        old = Deployed(servers, "f13", 4)
        old.play()
        old.start()
        for seed in run.seeds():
            wider = old.partitions + run.draw.randint(1, 4)
            with run.load(old):
                run.moment()
                noticed_s.append(widen(old, wider))
            old.close()
            new = Deployed(servers, f"f13-{seed}", wider)
            new.copy_from(old)
            new.start()
            new.known.update(old.known)
            with run.load(new):
                run.moment()
            run.recover(new)
            run.recount(new)
            old = new
        old.close()
        run.figures.append(f"noticed after {max(noticed_s):.0f} s at most")
    assert max(noticed_s) <= NOTICED_S


@pytest.mark.quick
def test_f14_a_topic_is_made_anew(trying: Trying, servers: LocalCluster) -> None:
    what = "topic deleted and created again: refused; rebuilt after the deletion of its keys"
    with trying("F14", what) as run, deployed(servers, "f14") as deployment:
        deployment.play()
        deployment.start()
        for _ in run.seeds():
            with run.load(deployment):
                run.moment()
                deployment.delete()
                deployment.create()
                deployment.play()
                run.moment()
                before = deployment.states.positions(deployment.name)
                deployment.running.refused("was deleted and made anew")
                assert deployment.states.positions(deployment.name) == before
                deployment.empty()
                run.recover(deployment)
                run.moment()
            deployment.catch_up()
            run.recount(deployment)


def test_f15_records_are_deleted_unread(trying: Trying, servers: LocalCluster) -> None:
    what = f"{UNREAD:,} unread records deleted: reported and refused; counted when skipped"
    lost = counted = 0
    with trying("F15", what) as run, deployed(servers, "f15") as deployment:
        deployment.play()
        deployment.start()
        deployment.running.stop()
        for _ in run.seeds():
            start, kept = deployment.position(), run.draw.randint(1, 2_000)
            with run.load(deployment, writes=False):
                deployment.send(UNREAD + kept)
                deployment.delete_records(start + UNREAD)
                refusing = deployment.stream()
                refusing.refused(f"{UNREAD} records of {deployment.topic}:0 from offset {start}")
                assert deployment.position() == start
                refusing.stop()
                skipping = deployment.stream(LOST_RECORDS="skip")
                run.recover(deployment)
                skipping.stop()
            lost += UNREAD
            counted += kept
            state = deployment.snapshot()
            assert (state.counters[LOST], state.values[0]["#"]) == (lost, counted)


def test_retention_has_passed_and_redis_is_emptied(trying: Trying, servers: LocalCluster) -> None:
    """A recount of what is left is in the plays of each user."""
    what = "first records deleted, then Redis emptied: refused with 503; exact after `allow`"
    with trying("retention", what) as run, deployed(servers, "retention") as strict:
        strict.play()
        strict.play()
        strict.start()
        strict.running.stop()
        allowed = {"TRUNCATED_TOPICS": json.dumps([strict.topic])}
        lenient = f"http://{strict.api(**allowed)}"
        users = list(USERS)
        begin = 0
        for _ in run.seeds():
            begin += run.draw.randint(1, len(users))
            with run.load(strict, writes=False):
                strict.delete_records(begin)
                strict.empty()
                refusing = strict.stream()
                reason = f"{strict.topic}:0 begins at offset {begin}"
                refusing.refused(reason, "STREAMSTATE_TRUNCATED_TOPICS")
                assert refused_to_read(strict, reason)
                assert strict.position() == 0
                refusing.stop()
                stream = strict.stream(**allowed)
                run.recover(strict)
                run.moment()
                assert refused_to_read(strict, reason)
            for user in users:
                answer = urllib3.request("GET", f"{lenient}/v1/users/{user}/metrics", timeout=10)
                plays = 2 * PLAYS - begin // len(users) - (users.index(user) < begin % len(users))
                assert (answer.status, answer.json()["eventCount"]) == (200, plays)
                assert answer.headers["State-Begin"] == f"{strict.topic}:0={begin}"
            stream.stop()
