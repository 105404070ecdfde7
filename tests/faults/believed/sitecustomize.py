"""Loaded by Python at the start, with this folder on the path: a clock with an offset from a file."""

import os
import time
from pathlib import Path

FILE = Path(os.environ["CLOCK_FILE"])
real, real_ns = time.time, time.time_ns


def seconds() -> int:
    return int(FILE.read_text())


time.time = lambda: real() + seconds()
time.time_ns = lambda: real_ns() + seconds() * 1_000_000_000
