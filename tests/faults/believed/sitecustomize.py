"""What Python loads first where this folder is on its path: a clock that is ahead by what a file says."""

import os
import time
from pathlib import Path

FILE = Path(os.environ["CLOCK_FILE"])
real, real_ns = time.time, time.time_ns


def seconds() -> int:
    return int(FILE.read_text())


time.time = lambda: real() + seconds()
time.time_ns = lambda: real_ns() + seconds() * 1_000_000_000
