"""Kafka and Redis for a trial."""

import re
import subprocess
from pathlib import Path

from tests.charts.rendering import pods, render


def test_an_upgrade_of_infra_creates_only_missing_topics(tmp_path: Path) -> None:
    [job] = [spec for item, spec in pods(render("infra")) if item["labels"]["app.kubernetes.io/name"] == "kafka-topics"]
    [container] = job["containers"]
    made, program = tmp_path / "made", tmp_path / "kafka-topics.sh"
    program.write_text(f'#!/bin/bash\n[[ $* == *--list* ]] && echo listening-events || echo "$@" >> {made}\n')
    program.chmod(0o755)
    script = container["args"][0].replace("/opt/kafka/bin/kafka-topics.sh", str(program))
    subprocess.run([*container["command"], script], check=True)
    topics = re.findall(r"--topic (\S+)(.*)", made.read_text())
    assert ("artists", " --config cleanup.policy=compact") in topics
    assert "listening-events" not in dict(topics)
