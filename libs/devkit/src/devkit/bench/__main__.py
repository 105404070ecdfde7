"""`make bench`: measures, prints the figures, and writes them when the run was a whole one."""

import signal
import sys
import tempfile
from pathlib import Path

from devkit.bench import report
from devkit.bench.run import BenchRun
from devkit.bench.settings import BenchSettings
from streamstate import bootstrap
from streamstate.errors import StreamStateError

DOCS = Path("docs")


def main() -> int:
    """The exit status: 0, or 1 when something failed; what, is said."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        settings = bootstrap.configure(BenchSettings)
        with tempfile.TemporaryDirectory() as home:
            run = BenchRun(settings, Path(home))
            run.measure()
    except (StreamStateError, KeyboardInterrupt) as error:
        sys.stderr.write(f"bench: {str(error) or 'interrupted'}\n")
        return 1
    sys.stdout.write(f"\n{report.text(run.figures)}")
    if not settings.only:
        report.write(DOCS, run.figures, settings.events)
    return 1 if run.figures.failures() else 0


if __name__ == "__main__":
    raise SystemExit(main())
