"""Folders for the files of one process, cleaned up after killed processes."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

LOCK = ".lock"
"""The name of a file in each folder."""


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, deleted at the end of the body; folders of killed processes are deleted first.

    The kernel releases the lock of a folder when its process ends in any way.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        with _locked(parent / LOCK):
            for left in parent.glob(f"*/{LOCK}"):
                with suppress(BlockingIOError), _locked(left, fcntl.LOCK_NB):
                    shutil.rmtree(left.parent, ignore_errors=True)
            folder = Path(mkdtemp(dir=parent))
            held.enter_context(_locked(folder / LOCK))
        held.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


@contextmanager
def _locked(file: Path, how: int = 0) -> Iterator[None]:
    """Lock `file`, created if missing, in the body. Raises `BlockingIOError` with LOCK_NB if it is locked."""
    with file.open("ab") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX | how)
        yield
