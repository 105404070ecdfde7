"""Processes that die, hang, are told to end, come and go: F1, F5, F6, F10, F11, F12 and F22 of the list of faults."""

import shutil
import signal
import threading
import time
from contextlib import suppress

import pytest
import redis

from devkit.servers.child_process import LOCALHOST, Child, free_port
from streamstate.state.redis_reads import tag
from streamstate.state.store import FORMAT
from tests.faults.conftest import UnderLoad
from tests.faults.fleet import OTHERS, Fleet, send
from tests.integration.driving import below, strike
from tests.waiting import until

ENDED_S = 15
ONE, OTHER, THIRD = "metrics-0", "metrics-1", "metrics-2"


def revive(child: Child) -> None:
    """Start `child` again when it has ended, as Kubernetes would."""
    until(lambda: not child.alive, f"{child.name} to end")
    child.start()


def own(fleet: Fleet, *instances: str) -> None:
    """Wait until exactly these instances own the partitions."""
    until(lambda: fleet.owned_by(*instances), f"{' and '.join(instances)} to own all partitions")


def end(children: list[Child]) -> None:
    """Ask them to end, all at the same time; the stream and the API of an instance share a pod."""
    threads = [threading.Thread(target=child.stop) for child in children]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.quick
def test_f1_driver_jvm_and_workers_are_killed(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F1", "kill -9 of driver, JVM and Python workers of any stream") as run:
        for _ in run.seeds():
            for part in run.draw.sample(("driver", "JVM", "worker"), 2):
                run.moment()
                child = fleet.streams[run.draw.choice([ONE, OTHER, OTHERS])]
                strike(child, part, run.draw)
                if part != "worker":
                    revive(child)
                run.recover(fleet)


def test_f5_the_checkpoints_are_removed_and_brought_back(under_load: UnderLoad, fleet: Fleet) -> None:
    kept = fleet.cluster.checkpoints.with_suffix(".kept")
    with under_load("F5", "Spark's checkpoints removed; old checkpoints restored, then kill -9") as run:
        for _ in run.seeds():
            run.moment()
            with suppress(shutil.Error):  # Spark removes files meanwhile
                shutil.copytree(fleet.cluster.checkpoints, kept, dirs_exist_ok=True)
            run.moment()
            shutil.rmtree(fleet.cluster.checkpoints, ignore_errors=True)
            run.recover(fleet)
            run.moment()
            stream = fleet.streams[run.draw.choice([ONE, OTHER])]
            stream.kill()
            shutil.copytree(kept, fleet.cluster.checkpoints, dirs_exist_ok=True)
            stream.start()
            run.recover(fleet)
    shutil.rmtree(kept, ignore_errors=True)


def test_f6_a_writer_hangs_and_wakes_as_a_zombie(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F6", "SIGSTOP of a writer until another writer owns its partitions, then SIGCONT") as run:
        for _ in run.seeds():
            hung, other = run.draw.sample((ONE, OTHER), 2)
            own(fleet, ONE, OTHER)
            run.moment()
            frozen = below(fleet.streams[hung])
            send(frozen, signal.SIGSTOP)
            own(fleet, other)
            run.moment()
            send(frozen, signal.SIGCONT)
            own(fleet, ONE, OTHER)
            run.recover(fleet)


def test_f10_one_of_two_owners_is_killed_under_reads(under_load: UnderLoad, fleet: Fleet) -> None:
    seconds = []
    with under_load("F10", "kill -9 of one of two owners, stream and API", 200) as run:
        for _ in run.seeds():
            killed, other = run.draw.sample((ONE, OTHER), 2)
            own(fleet, ONE, OTHER)
            run.moment()
            for child in fleet.processes_of(killed):
                child.kill()
            at = time.monotonic()
            own(fleet, other)
            seconds.append(time.monotonic() - at)
            run.recover(fleet)
            fleet.start(killed)
        own(fleet, ONE, OTHER)
        run.figures.append(f"new owner after {max(seconds):.1f} s at most")
    assert run.reads.failed <= len(run.reads.all) / 100
    assert run.reads.longest_s <= 2


def test_f11_scaling_and_a_rolling_restart(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F11", "metrics scaled to 2, 3, 1, 2 instances") as run:
        for _ in run.seeds():
            own(fleet, ONE, OTHER)
            fleet.start(THIRD)
            own(fleet, ONE, OTHER, THIRD)
            run.recover(fleet)
            end([child for name in (ONE, OTHER) for child in fleet.processes_of(name)])
            own(fleet, THIRD)
            run.recover(fleet)
            first, second = run.draw.sample((ONE, OTHER), 2)
            fleet.start(first)
            own(fleet, first, THIRD)
            end(fleet.processes_of(THIRD))
            fleet.start(second)
            own(fleet, ONE, OTHER)
            run.recover(fleet)
    assert run.reads.failed == 0


def test_f12_maps_that_lie(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F12", "partitions claimed by another instance, and by a missing instance") as run:
        nowhere = f"{LOCALHOST}:{free_port()}"
        for _ in run.seeds():
            for address in (nowhere, run.draw.choice([fleet.addresses[ONE], fleet.addresses[OTHER]])):
                run.moment()
                fleet.states.store("metrics").claim(run.draw.randrange(8), address, {})
                run.recover(fleet)
        own(fleet, ONE, OTHER)
    assert run.reads.failed == 0


def test_f22_streams_are_told_to_end(under_load: UnderLoad, fleet: Fleet) -> None:
    seconds = []
    with under_load("F22", "SIGTERM of a stream: status 0 within 15 s") as run:
        for _ in run.seeds():
            stream = fleet.streams[run.draw.choice((ONE, OTHER, OTHERS))]
            run.moment()
            started = time.monotonic()
            status = stream.stop(timeout=ENDED_S)
            seconds.append(time.monotonic() - started)
            assert status == 0, f"{stream.name} ended with {status} after {seconds[-1]:.1f} s"
            stream.start()
            run.recover(fleet)
        run.figures.append(f"ended after {max(seconds):.1f} s at most")


def test_f24_states_of_other_releases(under_load: UnderLoad, fleet: Fleet) -> None:
    """A claim by another makes the streams look at the state anew."""
    store, client = fleet.states.store("metrics"), redis.Redis.from_url(fleet.cluster.redis.url)
    tags = [tag("metrics", partition) for partition in range(8)]
    what = "states of an earlier and a later release; unknown format: refused"
    with client, under_load("F24", what) as run:
        for _ in run.seeds():
            for each in tags:
                client.hdel(each, "format", f"begin:{fleet.topic}", f"fold:{fleet.topic}")
                client.hset(each, items=["later", "1", f"later:{fleet.topic}", "2"])
            claimed = run.draw.randrange(8)
            store.claim(claimed, fleet.addresses[ONE], {})
            run.recover(fleet)
            client.hset(tags[claimed], "format", FORMAT + 1)
            store.claim(claimed, fleet.addresses[ONE], {})
            until(lambda: refused(fleet, f"has the format {FORMAT + 1}"), "a refusal")
            client.hset(tags[claimed], "format", FORMAT)
            run.recover(fleet)
        assert run.reads.kinds.keys() == {"503"}
        for each in tags:
            # They were left alone, and are taken away since a recount does not know them.
            assert client.hdel(each, "later", f"later:{fleet.topic}") == 2


def refused(fleet: Fleet, reason: str) -> bool:
    """Whether the last log lines of a stream contain `reason`."""
    return any(reason in fleet.streams[name].tail(20) for name in (ONE, OTHER))
