"""One change of a fold: stage, wait, diff, promote, back, promote, drop, each by its command, under load."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit import DevkitError
from devkit.change.load import Load, ReadsSeen
from devkit.cluster.local_cluster import LocalCluster, variables
from devkit.demo import say

STREAMSTATE = Path(sys.executable).with_name("streamstate")
BEFORE = "before"
"""The step without a command, for comparison."""

COMMANDS = ("stage", "wait", "diff", "promote", "back", "promote", "drop")
NO_SETTINGS: Mapping[str, str] = {}
_DIFFERENT = 1
"""The exit status of `diff` for releases with different answers."""


@dataclass
class Cycle:
    """The change of `service`: the reads of each step, and the answers of the commands, in their order."""

    service: str
    reads: list[tuple[str, ReadsSeen]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    def answer(self, command: str) -> Any:
        """The answer of the first run of `command`."""
        return self.answers[COMMANDS.index(command)]


@dataclass(frozen=True)
class FoldChange:
    """Runs cycles in `cluster` under `load`. `pause_s` is the time of a step after its command."""

    cluster: LocalCluster
    load: Load
    pause_s: float

    def run(self, service: str, settings: Mapping[str, str]) -> Cycle:
        """Change `service` to a release with `settings`. Raises `DevkitError` for a command that fails."""
        cycle = Cycle(service)
        sets = [argument for name, text in settings.items() for argument in ("--set", f"{name}={text}")]
        further = {"stage": sets, "drop": ["--yes"]}
        cycle.reads.append((BEFORE, self.load.renewed()))
        time.sleep(self.pause_s)
        for command in COMMANDS:
            say(f"streamstate {command} {service}")
            cycle.reads.append((command, self.load.renewed()))
            cycle.answers.append(self.command(command, service, *further.get(command, ())))
            time.sleep(self.pause_s)
        return cycle

    def differences(self, cycle: Cycle) -> int:
        """How many keys of the new release's state differ from the recount of its topics."""
        (report,) = self.command("verify", cycle.service, settings=cycle.answer("stage")["settings"])
        return len(report["differences"])

    def command(self, *arguments: str, settings: Mapping[str, str] = NO_SETTINGS) -> Any:
        """The JSON of `streamstate`, with the `settings` of a release other than the first. Raises `DevkitError`."""
        own = {
            "KAFKA": self.cluster.kafka.bootstrap,
            "REDIS": self.cluster.redis.url,
            "ARCHIVE": self.cluster.settings.archive,
            "GATEWAY": self.cluster.url,
            "RELEASES": str(self.cluster.beside.path),
        }
        environment = {**os.environ, **variables(own | dict(settings))}
        argv = [str(STREAMSTATE), *arguments, "--json"]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment)
        if done.returncode not in (0, _DIFFERENT if arguments[0] == "diff" else 0):
            msg = f"streamstate {' '.join(arguments)}: {done.stderr or done.stdout}"
            raise DevkitError(msg)
        return json.loads(done.stdout)
