"""The commands of a page, typed into a shell, and their documented output."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from devkit.servers.child_process import LOCALHOST, free_port
from tests.waiting import until_fits

_BLOCK = re.compile(r"^```sh\n(.*?)^```$(?:\n+```(?:json|text)\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
_PORT = re.compile(re.escape(LOCALHOST) + ":([0-9]+)")
_END = "the end of"
ANYTHING = "…"
"""Stands in an answer for a text or number that differs each time."""


class Example(NamedTuple):
    """The lines of a block, and the answer to the last one, None where nothing is said of it."""

    lines: list[str]
    answer: str | None


class Printed(NamedTuple):
    """What a command printed, and its exit status."""

    text: str
    status: int


def examples(page: str) -> list[Example]:
    blocks = _BLOCK.findall(Path(page).read_text())
    return [Example(commands.splitlines(), answer.strip() or None) for commands, answer in blocks]


def run_python(page: str, bootstrap: str) -> None:
    """Run the only Python example of a page that sends to Kafka, at the Kafka `bootstrap`."""
    [example] = re.findall(r"```python\n(from confluent_kafka.*?)```", Path(page).read_text(), re.DOTALL)
    exec(compile(example.replace("127.0.0.1:9092", bootstrap), page, "exec"), {})


class Terminal:
    """A shell in the project's folder. `ports` replace the ports of the pages; other ports are free ports."""

    def __init__(self, ports: dict[int, int], environment: dict[str, str]) -> None:
        self._ports = dict(ports)
        self._shell = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
            start_new_session=True,
        )

    def run(self, line: str) -> Printed:
        """Type `line`, and wait until it is done."""
        own = _PORT.sub(lambda at: f"{LOCALHOST}:{self._port(int(at[1]))}", line)
        assert self._shell.stdin
        self._shell.stdin.write(f"{own.replace('.venv/bin', str(Path(sys.executable).parent))}\necho {_END} $?\n")
        self._shell.stdin.flush()
        *printed, end = self._lines()
        text, _, status = end.partition(_END)
        return Printed("\n".join([*printed, text]).strip(), int(status))

    def follow(self, example: Example) -> None:
        """Type the lines; the last one again and again, until it prints the answer."""
        *before, question = example.lines
        for line in before:
            assert self.run(line).status == 0, line

        def fits(printed: Printed) -> bool:
            return printed.status == 0 if example.answer is None else same(example.answer, printed.text)

        until_fits(lambda: self.run(question), fits, f"{question} to print {example.answer}")

    def close(self) -> None:
        """End the shell and its running children."""
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()

    def _port(self, port: int) -> int:
        if port not in self._ports:
            self._ports[port] = free_port()
        return self._ports[port]

    def _lines(self) -> Iterator[str]:
        assert self._shell.stdout
        for line in self._shell.stdout:
            yield line.rstrip("\n")
            if _END in line:
                return


def same(expected: Any, actual: Any) -> bool:
    """Whether an answer, as text or JSON, is the expected one."""
    if isinstance(expected, str) and isinstance(actual, str) and expected.startswith("{") and actual.startswith("{"):
        return same(json.loads(expected), json.loads(actual))
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(same(expected[name], actual[name]) for name in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    return bool(expected in (ANYTHING, actual))
