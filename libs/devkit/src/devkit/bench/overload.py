"""The owner among clients that ask again at once, whatever they get."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from devkit.bench import cpu, wrk
from devkit.bench.read_load import FEW, Read
from devkit.bench.wrk import Clients, LoadResult

CLIENTS, PROBES = 640, 4
PEAK_S, FLOOD_S = 8, 20


@dataclass(frozen=True)
class Overload:
    """`peak` and `flood` are answers with 200 a CPU second of the owner. Memory is the owner's, in bytes.

    `probes` are the clients, among all others, whose refusals were timed; `pressure` is that of the flood.
    """

    peak: float
    flood: float
    answers: LoadResult
    probes: LoadResult
    before: int
    after: int
    pressure: float | None

    @property
    def share(self) -> float:
        """What is left of the peak."""
        return self.flood / self.peak

    @property
    def growth(self) -> float:
        """Memory after the flood over memory before it."""
        return self.after / self.before


def measure(read: Read, paths: Path) -> Overload:
    """`read` is the owner's."""
    pid = read.trees["owner"]
    wrk.run(read.address, paths, Clients(FEW, PEAK_S))
    meter = cpu.Meter({"owner": pid})
    peak = wrk.run(read.address, paths, Clients(FEW, PEAK_S, tally=True))
    at_peak, before = meter.read(), cpu.resident(pid)
    meter = cpu.Meter({"owner": pid})
    with ThreadPoolExecutor(1) as executor:
        timed = Clients(PROBES, FLOOD_S, threads=PROBES, tally=True)
        probes = executor.submit(wrk.run, read.address, paths, timed)
        flood = wrk.run(read.address, paths, Clients(CLIENTS - PROBES, FLOOD_S, tally=True))
        probed = probes.result()
    usage = meter.read()
    return Overload(
        peak=peak.ok / at_peak.cpu["owner"],
        flood=(flood.ok + probed.ok) / usage.cpu["owner"],
        answers=flood,
        probes=probed,
        before=before,
        after=cpu.resident(pid),
        pressure=usage.pressure,
    )
