"""`make bench-overload`: what a server answers while clients are slow on purpose, or ask for more than there is."""

import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flask import Flask

from devkit.bench import reads
from devkit.bench.hello import create as create_hello
from devkit.lab import Lab, answers
from devkit.process import LOCALHOST, free_port

READ_S, FLOOD_S = 5.0, 10.0
FEW = 4
SLOW_CLIENTS = 500
WORK_S = 0.05
"""How long the answer of `/work` takes, without CPU: the 16 threads give 320 a second."""

CLIENTS, PAUSE_S = 384, 0.08
"""A tenth of what these ask for can be answered: a client asks 12.5 times a second while it is refused."""

REPORT = Path("docs/bench-overload.md")
HEAD = f"""# Figures under overload

Written by `make bench-overload`: our gunicorn settings with a hello-world, on one machine with the clients. Slow
clients have sent half the head of a request. The peak is the most that 16 clients get of answers that take
{WORK_S * 1000:.0f} ms; the flood are {CLIENTS} clients that ask again {PAUSE_S * 1000:.0f} ms after a 503.
"""

Row = tuple[str, str]


def create() -> Flask:
    """For gunicorn: `devkit.bench.overload:create()`."""
    app = create_hello()

    @app.get("/work")
    def work() -> dict[str, str]:
        time.sleep(WORK_S)
        return {}

    return app


def main() -> None:
    """Measure and write `REPORT`."""
    address = f"{LOCALHOST}:{free_port()}"
    with tempfile.TemporaryDirectory() as home:
        child = Lab.gunicorn("devkit.bench.overload:create()", "overload", address, Path(home), {})
        child.start()
        child.wait_until(lambda: answers(f"http://{address}/"), timeout=30)
        try:
            rows = [*slow(address), *flooded(address)]
        finally:
            child.stop()
    table = "\n".join(["| what | figure |", "| --- | --- |", *(f"| {what} | {figure} |" for what, figure in rows)])
    REPORT.write_text(f"{HEAD}\n{table}\n")
    sys.stdout.write(f"{table}\n")


def slow(address: str) -> list[Row]:
    """Healthy reads without and with slow clients."""
    alone = reads.measure(address, ["/"], READ_S, FEW)
    with slow_clients(address):
        among = reads.measure(address, ["/"], READ_S, FEW)
    return [(f"reads, {FEW} clients", _told(alone)), (f"the same among {SLOW_CLIENTS} slow clients", _told(among))]


def _told(found: reads.Reads) -> str:
    return f"{found.per_second:,.0f} a second, p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms"


@contextmanager
def slow_clients(address: str) -> Iterator[None]:
    """Connections on which half a request was sent, and no more comes."""
    with ExitStack() as stack:
        for _ in range(SLOW_CLIENTS):
            stack.enter_context(reads.connect(address)).sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        yield


@dataclass
class Flood:
    """What the clients of a flood saw."""

    statuses: Counter[int] = field(default_factory=Counter)
    refused_s: list[float] = field(default_factory=list)

    def client(self, address: str, until: float) -> None:
        with reads.connect(address) as connection:
            while time.monotonic() < until:
                started = time.perf_counter()
                status = reads.ask(connection, "/work")
                self.statuses[status] += 1
                if status != 200:
                    self.refused_s.append(time.perf_counter() - started)
                    time.sleep(PAUSE_S)


def flooded(address: str) -> list[Row]:
    """Goodput at the peak and in a flood, and how fast the rest is refused."""
    peak = reads.measure(address, ["/work"], READ_S)
    flood, until = Flood(), time.monotonic() + FLOOD_S
    threads = [threading.Thread(target=flood.client, args=(address, until)) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    good = flood.statuses[200] / FLOOD_S
    asked = sum(flood.statuses.values()) / FLOOD_S
    p50, p99 = (1000 * reads.percentile(flood.refused_s, share) for share in (0.5, 0.99))
    statuses = ", ".join(map(str, sorted(flood.statuses)))
    return [
        ("answers of 50 ms, peak", f"{peak.per_second:,.0f} a second"),
        (f"the same when {asked:,.0f} a second are asked for", f"{good:,.0f} a second, {good / peak.per_second:.0%}"),
        (
            "refusals in the flood",
            f"p50 {p50:.1f} ms, p99 {p99:.1f} ms; statuses: {statuses}",
        ),
    ]


if __name__ == "__main__":
    main()
