"""The services of a local cluster: each runs under the name of its app, which a declared profile chooses."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from devkit import DevkitError, registry, topics
from devkit.cluster.beside import Beside
from devkit.cluster.local_cluster import LocalCluster
from devkit.cluster.plan import Plan
from devkit.cluster.streams import hosted
from devkit.demo import VARIABLES, DemoSettings, alone, environment, look_next, of_profiles, tend, wait_folded
from devkit.servers.child_process import Child, free_port, require_free_port
from streamstate.errors import Misconfigured
from streamstate.profile import SERVICE as PROFILE
from streamstate.releases import file
from streamstate.settings import StreamSettings, load
from tests.serving import Served, new_address
from tests.waiting import PATIENCE_S, until

DECLARED = """
name: rooms
topic: room-bookings
key: long
path: /v1/guests/<key>/rooms
measures: {bookings: {count: all, index: true}}
"""


@pytest.fixture
def rooms(tmp_path: Path) -> str:
    """The file of a declared profile."""
    path = tmp_path / "rooms.yaml"
    path.write_text(DECLARED)
    return str(path)


@pytest.fixture
def cluster(rooms: str, tmp_path: Path) -> LocalCluster:
    services = ("metrics", PROFILE, rooms)
    return LocalCluster(Plan(tmp_path, tmp_path, instances={"metrics": 2}, services=services), say=print)


def streams_of(host: Child) -> Sequence[str]:
    """The streams of a process, by its arguments."""
    return host.argv[host.argv.index("devkit.cluster.streams") + 1 :]


def test_a_service_is_addressed_by_the_name_of_its_app(cluster: LocalCluster) -> None:
    assert {name: len(of) for name, of in cluster.addresses.items()} == {"metrics": 2, "habits": 1, "rooms": 1}
    assert [api.name for api in cluster.apis] == ["metrics-0", "metrics-1", "habits-0", "rooms-0"]
    assert json.loads(cluster.gateway.env["STREAMSTATE_INSTANCES"]) == {
        name: ",".join(of) for name, of in cluster.addresses.items()
    }


def test_a_dropped_first_release_does_not_run(cluster: LocalCluster, tmp_path: Path) -> None:
    file.change(cluster.beside.path, "metrics", "metrics", None)
    again = LocalCluster(Plan(tmp_path, tmp_path, instances={"metrics": 2}, services=("metrics", PROFILE)), say=print)
    try:
        cluster.tend()
        for each, names in (cluster, ["habits-0", "rooms-0"]), (again, ["habits-0"]):
            assert [api.name for api in each.apis] == names
            assert len(streams_of(each.streams)) == len(names)
            assert "metrics" in json.loads(each.gateway.env["STREAMSTATE_INSTANCES"])
    finally:
        cluster.streams.stop()


def test_the_streams_of_an_app_apart_have_a_process_of_their_own(tmp_path: Path) -> None:
    cluster = LocalCluster(Plan(tmp_path, tmp_path, services=("metrics", PROFILE), apart=["habits"]), say=print)
    shared, apart = streams_of(cluster.streams), streams_of(cluster.apart["habits"])
    assert [name.partition("=")[0] for name in (*shared, *apart)] == ["metrics-0", "profile-0"]
    assert len(apart) == 1
    file.change(cluster.beside.path, "habits", "habits", None)
    cluster.tend()
    assert (cluster.apart, streams_of(cluster.streams)) == ({}, shared)
    assert not cluster.streams.alive


def test_a_file_runs_in_the_service_of_profiles(cluster: LocalCluster, rooms: str) -> None:
    *_, habits, further = cluster.apis
    assert habits.argv[-1] == further.argv[-1] == "services.profile"
    assert "STREAMSTATE_PROFILE" not in habits.env
    assert further.env["STREAMSTATE_PROFILE"] == rooms


def test_two_services_of_one_name_are_refused(rooms: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text(DECLARED)
    with pytest.raises(DevkitError, match=rf"{rooms} and {copy} are both called rooms; give one another name"):
        Plan(tmp_path, tmp_path, services=(rooms, str(copy))).addresses()


def test_two_services_of_one_path_are_refused(tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text(DECLARED.replace("/v1/guests/<key>/rooms", "/v1/users/<key>/metrics"))
    with pytest.raises(DevkitError, match=rf"metrics and {copy} both answer at /v1/users/<key>/metrics; give one"):
        Plan(tmp_path, tmp_path, services=("metrics", str(copy))).addresses()


def test_a_stream_runs_under_the_name_of_its_app(cluster: LocalCluster) -> None:
    host = cluster.host(["habits-0=127.0.0.1:8101", "rooms-12=127.0.0.1:8102", "words-0=127.0.0.1:8103"])
    instances = [hosted(argument, load(StreamSettings)) for argument in streams_of(host)]
    assert [each.app.name for each in instances] == ["habits", "rooms", "words"]
    assert [each.instance for each in instances] == ["habits-0", "rooms-12", "words-0"]
    assert [each.advertise for each in instances] == ["127.0.0.1:8101", "127.0.0.1:8102", "127.0.0.1:8103"]


def test_the_topics_of_a_profile_are_those_of_its_app(rooms: str) -> None:
    assert set(topics.configurations([PROFILE])) == {"listening-events", "habits-dlq", topics.DELETIONS}
    assert set(topics.configurations([rooms])) == {"room-bookings", "rooms-dlq", topics.DELETIONS}


def test_the_demo_runs_further_profiles_beside_the_standard_services(
    rooms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFILE", rooms)
    services = load(DemoSettings).plan.services
    assert services == (*registry.STANDARD, rooms)
    assert list(of_profiles(services, 7)) == ["/v1/users/7/habits", "/v1/guests/7/rooms"]


def sourced(cluster: LocalCluster, path: Path) -> dict[str, str]:
    """The environment of a shell, with variables of another demo, that has sourced the file for `cluster`."""
    path.write_text(environment(cluster))
    before = {"STREAMSTATE_ARCHIVE": "/archive", "STREAMSTATE_PROFILE": "other.yaml", "PATH": os.environ["PATH"]}
    shell = subprocess.run(["sh", "-c", f". {path}; env"], env=before, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in shell.stdout.splitlines() if line.startswith("STREAMSTATE_"))


def test_the_demo_gives_commands_the_addresses_of_its_servers(rooms: str, tmp_path: Path) -> None:
    plan = Plan(tmp_path, tmp_path, gateway_port=28080, services=(PROFILE, rooms), value="avro", archive="/kept")
    cluster = LocalCluster(plan, print)
    variables = sourced(cluster, tmp_path / "env")
    assert variables == {
        "STREAMSTATE_KAFKA": cluster.kafka.bootstrap,
        "STREAMSTATE_REDIS": cluster.redis.url,
        "STREAMSTATE_RELEASES": str(tmp_path / "releases.json"),
        "STREAMSTATE_FORMATS": '{"*": {"value": "avro"}}',
        "STREAMSTATE_REGISTRY": cluster.registry.url,
        "STREAMSTATE_ARCHIVE": "/kept",
        "STREAMSTATE_GATEWAY": "http://127.0.0.1:28080",
    }
    assert {*variables, "STREAMSTATE_PROFILE"} == {f"STREAMSTATE_{name}" for name in VARIABLES}
    page, answer, command, logs, stop = look_next(cluster, "http://127.0.0.1:28080/v1/users/1").splitlines()
    assert page.endswith(" http://127.0.0.1:28080/")
    assert answer.endswith(" curl http://127.0.0.1:28080/v1/users/1")
    assert command.endswith(" . .demo/env; .venv/bin/streamstate status")
    assert (logs.endswith(" .demo/*.log"), "Ctrl-C" in stop) == (True, True)


def test_a_demo_without_profile_and_with_usual_ports_names_its_servers_only(tmp_path: Path) -> None:
    cluster = LocalCluster(Plan(tmp_path, tmp_path, gateway_port=8080, services=(PROFILE,)), print)
    expected = {f"STREAMSTATE_{name}" for name in ("KAFKA", "REDIS", "RELEASES", "GATEWAY")}
    assert sourced(cluster, tmp_path / "env").keys() == expected


class Tended(LocalCluster):
    """Whose restarts fail for the given reasons, one after the other."""

    def __init__(self, url: str, *failures: BaseException | None) -> None:
        self.url = url
        self._failures = iter(failures)

    def revive(self) -> None:
        if failure := next(self._failures):
            raise failure


def test_the_demo_says_that_kafka_cannot_be_started_or_does_not_answer_once_each() -> None:
    answers = iter([{}, {}, {"kafka": "has not answered since noon"}, {"kafka": "has not answered since noon"}, {}])

    def readyz(_environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield json.dumps(next(answers)).encode()

    address, said = new_address(), list[str]()
    gateway = Served(address, readyz)
    full = [DevkitError(f"Kafka ended; the end of its log:\n12:0{n} No space left on device") for n in range(2)]
    with pytest.raises(KeyboardInterrupt):
        tend(Tended(f"http://{address}", *full, None, None, None, KeyboardInterrupt()), said.append, 0, 0)
    gateway.stop()
    assert said == [
        f"{full[0]}\nhttp://{address}/ answers from the state so far; trying again every 0 s",
        f"Kafka has not answered since noon; http://{address}/ answers from the state of that time",
        "Kafka answers again",
    ]


def test_two_servers_of_one_port_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_PORT", "9092")
    with pytest.raises(Misconfigured, match="GATEWAY_PORT and KAFKA_PORT are both 9092; give one of them another port"):
        load(DemoSettings)


def test_a_second_demo_and_the_removal_of_its_state_are_refused(tmp_path: Path) -> None:
    makefile = Path("Makefile").absolute()
    home = tmp_path / ".demo"

    def clean() -> subprocess.CompletedProcess[str]:
        argv = ["make", "--no-print-directory", "-f", str(makefile), "demo-clean"]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)

    with alone(home):
        (home / "fed").touch()
        with pytest.raises(DevkitError, match=r"a demo of this clone runs already .*env"), alone(home):
            pass
        assert (clean().returncode, (home / "fed").exists()) == (2, True)
        assert clean().stdout == "a demo of this clone runs: end it first\n"
    with alone(home):
        pass
    for _ in range(2):
        assert (clean().returncode, home.exists()) == (0, False)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(Misconfigured, match=r"no-such.yaml: No such file or directory"):
        registry.app("no-such.yaml")


# Child processes.

Run = Callable[[str], Child]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts a shell script and waits until it has written a line; ends it after the test."""
    children: list[Child] = []

    def started(script: str) -> Child:
        child = Child("Thing", ["sh", "-c", script], tmp_path / "logs" / "thing.log")
        children.append(child)
        child.start()
        child.wait_until(lambda: bool(child.tail()), timeout=PATIENCE_S)
        return child

    yield started
    for child in children:
        child.kill()


def gone(pid: int) -> bool:
    """Whether the process has ended; the orphan of a killed parent may wait for init as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_kill_takes_its_children_along(run: Run) -> None:
    child = run("sleep 3600 & echo $!; wait")
    grandchild = int(child.tail())
    child.kill()
    until(lambda: gone(grandchild))


PARENT = """
import signal, sys, threading
from pathlib import Path
from devkit.servers.child_process import Child
child = Child("Thing", ["sleep", "3600"], Path(sys.argv[1]))
starter = threading.Thread(target=child.start)
starter.start()
starter.join()
print(child.pid, flush=True)
signal.pause()
"""


def test_a_child_ends_with_its_killed_parent_and_not_with_the_thread_that_started_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.kill()
    until(lambda: gone(pid))


def test_a_death_before_it_is_ready_shows_the_end_of_the_log(tmp_path: Path) -> None:
    script = "for i in $(seq 30); do echo line $i; done; exit 3"
    child = Child("Thing", ["sh", "-c", script], tmp_path / "log")
    child.start()
    with pytest.raises(DevkitError, match="Thing ended before it was ready") as error:
        child.wait_until(lambda: False, timeout=PATIENCE_S)
    assert str(error.value).endswith("\n".join(["", *(f"line {i}" for i in range(11, 31))]))
    assert "line 10\n" not in str(error.value)


def test_a_taken_port_says_which_setting_to_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        process = rf"by process {os.getpid()} \(.*, started from this folder, perhaps left by a killed demo\)"
        advice = rf"end it by `kill {os.getpid()}`, or set KAFKA_PORT"
        with pytest.raises(DevkitError, match=rf"Kafka: port {port} \(KAFKA_PORT\) is taken {process}; {advice}"):
            require_free_port("Kafka", port, "KAFKA_PORT")


# Releases in a file, run as child processes.


def test_releases_run_while_they_are_in_the_file(tmp_path: Path) -> None:
    def make(name: str, release: file.ByHand) -> list[Child]:
        argv = ["sleep", "3600"]
        return [Child(f"{name} of {release.package}", argv, tmp_path / f"{name}.log")]

    said: list[str] = []
    beside = Beside(tmp_path / "releases.json", make, said.append)
    beside.tend()
    assert beside.children == []
    release = file.ByHand("127.0.0.1:8102", "services.metrics")
    file.change(beside.path, "metrics", "metrics-2", release)
    beside.tend()
    beside.tend()
    [child] = beside.children
    assert [child.alive for child in beside.children] == [True]
    assert child.name == "metrics-2 of services.metrics"
    file.change(beside.path, "metrics", "metrics-2", None)
    beside.tend()
    assert beside.children == []
    assert not child.alive
    assert said == ["starting the release metrics-2", "stopping the release metrics-2"]


class Folding:
    """A demo whose topics grow, and whose first states reach their first ends only when a release runs beside them."""

    def __init__(self, beside: Beside, streams: Child) -> None:
        self.beside, self.streams, self._end = beside, streams, 0

    def states(self) -> "Folding":
        return self

    def ends(self) -> int:
        self._end += 1
        return self._end

    def caught_up(self, ends: int | None = None) -> bool:
        return ends == 1 and any(child.alive for child in self.beside.children)

    def ready(self) -> bool:
        return True


def test_a_release_starts_while_the_demo_still_folds(tmp_path: Path) -> None:
    def child(name: str, _release: Any = None) -> Child:
        return Child(name, ["sleep", "3600"], tmp_path / f"{name}.log")

    demo = Folding(Beside(tmp_path / "releases.json", lambda *of: [child(*of)], print), child("streams"))
    release = file.ByHand("127.0.0.1:8102", "services.metrics")
    file.change(demo.beside.path, "metrics", "metrics-2", release)
    demo.streams.start()
    try:
        wait_folded(cast("LocalCluster", demo))
    finally:
        for each in (demo.streams, *demo.beside.children):
            each.stop()


def test_each_free_port_is_another() -> None:
    """A server may take its port later than the next port is asked for."""
    ports = [free_port() for _ in range(2_000)]
    assert len({*ports}) == len(ports)
