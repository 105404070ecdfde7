"""`make bench`: measures, prints the figures, and writes them when the run was a whole one."""

import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from devkit.bench import report
from devkit.bench.run import Run
from devkit.bench.settings import BenchSettings
from streamstate.errors import StreamStateError
from streamstate.settings import load

DOCS = Path("docs")


def main() -> int:
    """The exit status: 0, or 1 when something failed; what, is said."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        settings = load(BenchSettings, "")
        with tempfile.TemporaryDirectory() as home:
            run = Run(settings, Path(home))
            run.measure()
    except (StreamStateError, KeyboardInterrupt) as error:
        sys.stderr.write(f"bench: {str(error) or 'interrupted'}\n")
        return 1
    sys.stdout.write(f"\n{report.text(run.figures)}")
    if not settings.only:
        report.write(DOCS, run.figures, settings.events)
    return 1 if run.figures.failures() else 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
