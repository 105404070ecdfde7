"""The commands of docs/systems.md, docs/by-hand.md and docs/using.md on the real ring: each prints the answer shown."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.cluster.local_cluster import variables
from devkit.demo import CACHE
from devkit.registry import EXAMPLES
from devkit.servers.class_archive import ARCHIVE, shared_classes
from streamstate.keys import MARKER_HEADER, Marker
from tests.integration.driving import Driving
from tests.integration.terminal import Example, Terminal, examples
from tests.waiting import until, until_equal

SYSTEMS = "docs/systems.md"
*STARTED, VERIFIED, STOPPED = examples("docs/by-hand.md")
TABLE = re.findall(r"`(curl .*?)` \|$", Path("docs/using.md").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def terminal(driving: Driving) -> Iterator[Terminal]:
    settings, url = driving.cluster.settings, driving.cluster.url
    classes = shared_classes(Path.cwd() / CACHE / ARCHIVE, "{}")
    own = {"KAFKA": settings.kafka, "REDIS": settings.redis, "SPARK": classes}
    terminal = Terminal({8080: int(url.rpartition(":")[2])}, variables(own))
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize(
    "example", [*STARTED, *examples(SYSTEMS), VERIFIED, STOPPED], ids=lambda example: str(example.lines[-1])
)
def test_the_answer_is_what_the_page_says(driving: Driving, terminal: Terminal, example: Example) -> None:
    terminal.follow(example)
    # So does the demo, with what was killed.
    driving.cluster.revive()


@pytest.fixture(scope="module")
def booked(terminal: Terminal) -> None:
    """The keys of the table."""
    send = """.venv/bin/python -m devkit.console send --key long bookings '7:{"amount": 29}' '8:{"amount": 31}'"""
    assert terminal.run(send).status == 0


@pytest.mark.usefixtures("booked")
@pytest.mark.parametrize("command", TABLE)
def test_each_feature_of_the_table_answers(terminal: Terminal, command: str) -> None:
    until_equal(lambda: terminal.run(f"{command} -sf").status, 0, f"an answer to {command}")


def test_a_record_of_a_derived_topic_that_came_again_is_read_once(driving: Driving, terminal: Terminal) -> None:
    console = ".venv/bin/python -m devkit.console"
    assert terminal.run(f"{console} create --partitions 1 came-again").status == 0
    for number in (0, 1, 0, 1, 2):
        header = Marker("a-topic", 0, 5, number).encode()
        driving.out.produce("came-again", f"{number}", "anna", headers={MARKER_HEADER: header})
    driving.out.produce("came-again", "of nobody", "anna")
    driving.out.produce("came-again", "of nobody", "anna")
    driving.out.flush()
    expected = ["anna:0", "anna:1", "anna:2", "anna:of nobody", "anna:of nobody"]
    assert terminal.run(f"{console} read came-again").text.splitlines() == expected


def test_the_examples_are_as_their_recounts_say(driving: Driving) -> None:
    until(driving.cluster.ready, "every instance to be ready")
    driving.settle()
    assert driving.differences(*EXAMPLES) == []
