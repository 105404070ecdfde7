"""Processes that die, hang, are told to end, come and go: F1, F5, F6, F10, F11, F12 and F22 of the list of faults."""

import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from devkit.child_process import LOCALHOST, Child, free_port
from tests.faults.conftest import UnderLoad
from tests.faults.fault_report import Row
from tests.faults.fleet import OTHERS, Fleet, below, parts, send
from tests.integration.driving import eventually

TAKEN_OVER_S = 15
ENDED_S = 15
STARTED_S = 60
ONE, OTHER, THIRD = "metrics-0", "metrics-1", "metrics-2"


def revive(child: Child) -> None:
    """Start `child` again when it has ended, as Kubernetes would."""
    eventually(lambda: not child.alive, f"{child.name} to end", ENDED_S)
    child.start()


def strike(child: Child, part: str, draw: random.Random) -> None:
    """Kill one of the processes that are this part of `child`; one that has just started has no workers yet."""
    eventually(lambda: bool(parts(child)[part]), f"{child.name} to have a {part}", STARTED_S)
    send([draw.choice(parts(child)[part])], signal.SIGKILL)


def test_f1_driver_jvm_and_workers_are_killed(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F1", "kill -9 of driver, JVM and Python workers of any stream") as run:
        for part in ("worker", "driver", "JVM", "worker", "JVM", "worker"):
            run.moment()
            child = fleet.streams[run.draw.choice([ONE, OTHER, OTHERS])]
            strike(child, part, run.draw)
            if part != "worker":
                revive(child)
            run.recover()


def test_f5_the_checkpoints_are_removed_and_brought_back(under_load: UnderLoad, fleet: Fleet) -> None:
    kept = fleet.cluster.checkpoints.with_suffix(".kept")
    with under_load("F5", "Spark's checkpoints removed while it runs; older ones restored, then kill -9") as run:
        run.moment()
        with suppress(shutil.Error):  # Spark removes files meanwhile
            shutil.copytree(fleet.cluster.checkpoints, kept)
        run.moment()
        shutil.rmtree(fleet.cluster.checkpoints, ignore_errors=True)
        run.recover()
        run.moment()
        fleet.streams[ONE].kill()
        shutil.copytree(kept, fleet.cluster.checkpoints, dirs_exist_ok=True)
        fleet.streams[ONE].start()
        run.recover()
    shutil.rmtree(kept, ignore_errors=True)


def test_f6_a_writer_hangs_and_wakes_as_a_zombie(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F6", "SIGSTOP of a writer until another has taken over, then SIGCONT: it joins again") as run:
        run.moment()
        frozen = below(fleet.streams[OTHER])
        send(frozen, signal.SIGSTOP)
        eventually(lambda: fleet.owned_by(ONE), "the other instance to take over", TAKEN_OVER_S + 10)
        run.moment()
        send(frozen, signal.SIGCONT)
        eventually(lambda: fleet.owned_by(ONE, OTHER), "the zombie to be a member again", 60)
        run.recover()


def test_f10_one_of_two_owners_is_killed_under_reads(
    under_load: UnderLoad, fleet: Fleet, row: Callable[[], Row]
) -> None:
    with under_load("F10", "kill -9 of one of two owners, stream and API, under 200 reads a second", 200) as run:
        eventually(lambda: fleet.owned_by(ONE, OTHER), "both to own partitions", 60)
        run.moment()
        for child in fleet.of(OTHER):
            child.kill()
        killed = time.monotonic()
        eventually(lambda: fleet.owned_by(ONE), "the other instance to take over", TAKEN_OVER_S)
        print(f"owned anew after {time.monotonic() - killed:.1f} s")
        run.recover()
        fleet.start(OTHER)
        eventually(lambda: fleet.owned_by(ONE, OTHER), "both to own partitions again", 60)
    assert row().failed <= row().reads / 100
    assert row().longest_s <= 2


def test_f11_scaling_and_a_rolling_restart(under_load: UnderLoad, fleet: Fleet, row: Callable[[], Row]) -> None:
    with under_load("F11", "scale 2, 3, 1, 2 instances of metrics and restart them one by one") as run:
        eventually(lambda: fleet.owned_by(ONE, OTHER), "two owners", 60)
        fleet.start(THIRD)
        eventually(lambda: fleet.owned_by(ONE, OTHER, THIRD), "three owners", 60)
        run.recover()
        for name in (THIRD, OTHER):
            end(fleet.of(name))
        eventually(lambda: fleet.owned_by(ONE), "one owner", 60)
        run.recover()
        fleet.start(OTHER)
        eventually(lambda: fleet.owned_by(ONE, OTHER), "two owners", 60)
        run.recover()
        for name in (ONE, OTHER):
            end(fleet.of(name))
            fleet.start(name)
            eventually(lambda: fleet.owned_by(ONE, OTHER), "two owners", 60)
            run.recover()
    assert row().failed == 0


def end(children: list[Child]) -> None:
    """Ask them to end, all at the same time; the stream and the API of an instance share a pod."""
    threads = [threading.Thread(target=child.stop) for child in children]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_f12_maps_that_lie(under_load: UnderLoad, fleet: Fleet, row: Callable[[], Row]) -> None:
    with under_load("F12", "partitions claimed by another instance, and by one that is not there") as run:
        nowhere = f"{LOCALHOST}:{free_port()}"
        for _ in range(4):
            run.moment()
            address = run.draw.choice([nowhere, fleet.addresses[ONE], fleet.addresses[OTHER]])
            fleet.store("metrics").claim(run.draw.randrange(8), address, {})
            run.recover()
        eventually(lambda: fleet.owned_by(ONE, OTHER), "the owners to take back what is theirs", 60)
    assert row().failed == 0


def test_f22_streams_are_told_to_end(under_load: UnderLoad, fleet: Fleet) -> None:
    seconds = []
    with under_load("F22", "SIGTERM of a stream, which ends with status 0 within 15 s") as run:
        for name in (ONE, OTHERS, OTHER):
            run.moment()
            started = time.monotonic()
            status = fleet.streams[name].stop(timeout=ENDED_S)
            seconds.append(time.monotonic() - started)
            assert status == 0, f"{name} ended with {status} after {seconds[-1]:.1f} s"
            fleet.streams[name].start()
            run.recover()
    print("ended after", [f"{one:.1f} s" for one in seconds])
