"""The lab's page of figures, and its load."""

import itertools
import shutil
from pathlib import Path

import pytest

from devkit.lab.load import Reads, Request, asking
from devkit.lab.targets import PROFILES, TARGETS, Report, Target
from devkit.servers.child_process import LOCALHOST, free_port
from tests.serving import Served
from tests.waiting import until

BENCH = Path("docs/bench.md").resolve()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return Path(shutil.copy(BENCH, tmp_path))


def test_a_run_without_figures_leaves_the_page(page: Path) -> None:
    Report().write(page)
    assert page.read_text() == BENCH.read_text()


def test_a_run_of_a_part_replaces_its_section(page: Path) -> None:
    report = Report()
    report.profiles.append(Target("memory of a value", 12.3, 16, unit="bytes"))
    report.write(page)
    before, _, _ = BENCH.read_text().partition(f"## {PROFILES}")
    written, _, section = page.read_text().partition(f"## {PROFILES}")
    assert written == before
    assert "| memory of a value | 12.3 bytes | ≤ 16 | yes |" in section
    assert len(section.splitlines()) == 5


def test_a_whole_run_leaves_nothing_of_the_run_before(page: Path) -> None:
    report = Report()
    report.targets.append(Target("freshness", 301, 300, 200, "ms", parts={"streams": 3, "Redis": 1}))
    report.write(page, "- 4 cores\n")
    before, _, _ = BENCH.read_text().partition("## Conditions")
    row = "| freshness | 301 ms | ≤ 300 (200) | no: streams 75%, Redis 25% |\n"
    head = "| what | figure | target (stretch) | met |\n| --- | --- | --- | --- |\n"
    assert page.read_text() == f"{before}## Conditions\n\n- 4 cores\n\n## {TARGETS}\n\n{head}{row}"
    assert not report.reached


def test_every_read_is_judged_once_and_a_failure_is_of_its_kind() -> None:
    answers = itertools.cycle(["200 OK", "200 OK", "503 Unavailable"])

    def app(_environ: object, start: object) -> list[bytes]:
        start(next(answers), [])  # type: ignore[operator]
        return [b"told"]

    served, reads = Served(f"{LOCALHOST}:{free_port()}", app), Reads()

    def request(number: int) -> Request:
        return Request(number, f"/{number}", lambda answer: ("" if answer.status == 200 else str(answer.status), ""))

    with asking(f"http://{served.address}", request, reads, per_s=500, readers=2):
        until(lambda: len(served.seen) >= 30, "thirty reads")
    served.stop()
    assert sorted(served.seen, key=lambda path: int(path[1:])) == [f"/{number}" for number in range(len(served.seen))]
    assert len(reads.all) == len(served.seen)
    assert reads.kinds == {"503": len(served.seen) // 3}
    assert reads.take().failed == len(served.seen) // 3
    assert reads.all == []
