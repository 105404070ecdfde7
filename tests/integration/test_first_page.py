"""README: its commands print what it shows, run beside a demo of its profile.

Numbers differ from run to run: `make record` writes those of a run into the page.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3

from devkit.servers.child_process import free_port
from streamstate.cli.trial.sample import PROFILE
from tests.waiting import PATIENCE_S, until

PAGE = Path("README.md").absolute()
BLOCK = re.compile(r"^```console\n\$ (.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = r"\d[\d.,]*"
LINKED = (".cache", ".venv", "libs", "services")
USUAL = "http://127.0.0.1:8080"


def transcripts(page: str) -> list[tuple[str, str]]:
    """Each command, with the output that the page shows behind it."""
    parts = [part.partition("\n") for block in BLOCK.findall(page) for part in block.split("\n$ ")]
    return [(command, output.strip()) for command, _, output in parts]


def pattern(shown: str) -> re.Pattern[str]:
    """Output that looks like `shown`: with any numbers, and any text in place of an ellipsis."""
    numbered = re.sub(r"\d(?:[\d,]|\\\.)*", lambda _: f"({NUMBER})", re.escape(shown))
    return re.compile(numbered.replace("…", ".*?"), re.DOTALL)


def recorded(shown: str, output: str) -> str:
    """`shown` with the numbers of `output`."""
    found = pattern(shown).match(output)
    assert found, f"expected\n{shown}\nfound\n{output}"
    numbers = iter(found.groups())
    return re.sub(NUMBER, lambda _: next(numbers), shown)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[str, Callable[[str], str]]]:
    """The address of a demo's gateway, and a shell in the demo's folder, which has the profile of the page."""
    for name in LINKED:
        (tmp_path / name).symlink_to(Path(name).resolve())
    [profile] = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / PROFILE).write_text(profile)
    ports = {f"{name}_PORT": str(free_port()) for name in ("GATEWAY", "KAFKA", "REDIS")}
    url = f"http://127.0.0.1:{ports['GATEWAY_PORT']}"
    environment = {**os.environ, **ports, "PROFILE": str(PROFILE)}

    def run(command: str) -> str:
        script = f". .demo/env; {command.replace(USUAL, url)}"
        ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        return f"{ended.stdout}{ended.stderr}"

    argv = [f"{tmp_path}/.venv/bin/python", "-m", "devkit.demo"]
    process = subprocess.Popen(argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        # The demo limits the time of each step, and ends without the line when one takes longer.
        assert any("folded, and fed" in line for line in process.stdout), "the demo has ended at its start"
        yield url, run
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_the_commands_of_the_page_print_what_it_shows(demo: tuple[str, Callable[[str], str]]) -> None:
    url, run = demo
    page = PAGE.read_text()
    for command, shown in transcripts(page):
        page = page.replace(f"{command}\n{shown}", f"{command}\n{recorded(shown, run(command))}")
    if os.environ.get("RECORD"):
        PAGE.write_text(page)

    def plays() -> int:
        answer = urllib3.request("GET", f"{url}/v1/users/1", timeout=PATIENCE_S, retries=False)
        return int(answer.json().get("eventCount", 0))

    before = plays()
    until(lambda: plays() > before, "the streams to count again")
    assert run(".venv/bin/streamstate verify metrics").strip().endswith(": no difference")
