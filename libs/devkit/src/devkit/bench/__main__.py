"""`make bench`: measure, print the figures, and write the page after a run of all parts, or of profiles."""

import signal
import sys
import tempfile
from pathlib import Path

from devkit.bench.run import BenchRun
from devkit.bench.settings import BenchSettings
from streamstate import bootstrap
from streamstate.errors import StreamStateError

PAGE = Path("docs/bench.md")


def main() -> int:
    """The exit status: 0, or 1 after an error or failed requests."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        settings = bootstrap.configure(BenchSettings)
        with tempfile.TemporaryDirectory() as home:
            report = BenchRun(settings, Path(home)).measure()
    except (StreamStateError, KeyboardInterrupt) as error:
        sys.stderr.write(f"bench: {str(error) or 'interrupted'}\n")
        return 1
    sys.stdout.write(f"\n{report.text()}")
    if not settings.only:
        report.write(PAGE, settings.events)
    if settings.only == "profile":
        report.write_profile(PAGE)
    return 1 if report.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
