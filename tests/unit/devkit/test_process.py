"""Child processes."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.child_process import Child, require_free_port

Run = Callable[[str], Child]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts a shell script and waits until it has written a line; ends it after the test."""
    children: list[Child] = []

    def started(script: str) -> Child:
        child = Child("Thing", ["sh", "-c", script], tmp_path / "logs" / "thing.log")
        children.append(child)
        child.start()
        child.wait_until(lambda: bool(child.tail()), timeout=5)
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
    child = run("sleep 60 & echo $!; wait")
    grandchild = int(child.tail())
    child.kill()
    deadline = time.monotonic() + 2
    while not gone(grandchild) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone(grandchild)


def test_a_death_before_it_is_ready_shows_the_end_of_the_log(tmp_path: Path) -> None:
    script = "for i in $(seq 30); do echo line $i; done; exit 3"
    child = Child("Thing", ["sh", "-c", script], tmp_path / "log")
    child.start()
    with pytest.raises(DevkitError, match="Thing ended before it was ready") as error:
        child.wait_until(lambda: False, timeout=5)
    assert str(error.value).endswith("\n".join(["", *(f"line {i}" for i in range(11, 31))]))
    assert "line 10\n" not in str(error.value)


def test_a_taken_port_says_which_setting_to_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(DevkitError, match=rf"Kafka: port {port} \(KAFKA_PORT\) .*set KAFKA_PORT"):
            require_free_port("Kafka", port, "KAFKA_PORT")
