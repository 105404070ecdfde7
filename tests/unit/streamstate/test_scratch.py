"""Folders of processes: those of processes that were killed go at the next start, and no others."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamstate.deployment.scratch import scratch

HOLDING = """
import sys, time
from pathlib import Path
from streamstate.deployment.scratch import scratch

with scratch(Path(sys.argv[1])) as folder:
    (folder / "file").write_text("left")
    print(folder, flush=True)
    time.sleep(60)
"""


@contextmanager
def holding(parent: Path) -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    """A process that has a folder in `parent`."""
    argv = [sys.executable, "-c", HOLDING, str(parent)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield Path(process.stdout.readline().strip()), process
        process.kill()


def test_the_folder_of_a_process_that_was_killed_goes_at_the_next_start(tmp_path: Path) -> None:
    with holding(tmp_path) as (folder, process):
        process.kill()
        process.wait()
        assert (folder / "file").read_text() == "left"
        with scratch(tmp_path) as mine:
            assert not folder.exists()
            assert mine.is_dir()


def test_the_folders_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "1").write_text("kept")
    with holding(tmp_path) as (folder, _):
        for _ in range(2):
            with scratch(tmp_path) as mine:
                assert mine != folder
            assert not mine.exists()
        assert (folder / "file").read_text() == "left"
    assert (tmp_path / "schemas" / "1").read_text() == "kept"
