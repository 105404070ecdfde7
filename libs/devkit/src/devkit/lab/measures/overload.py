"""The owner under clients that send their next request after any answer."""

from dataclasses import dataclass

from devkit.demo import say
from devkit.lab import cpu, wrk
from devkit.lab.measures.reads import FEW, Read
from devkit.lab.targets import Report, Target
from devkit.lab.wrk import Clients, LoadResult

CLIENTS = 640
PEAK_S, FLOOD_S = 8, 20


@dataclass(frozen=True)
class Overload:
    """`peak` and `flood` are answers with 200 a CPU second of the owner, `before` and `after` bytes of its memory.

    answers: of the flood.
    """

    peak: float
    flood: float
    answers: LoadResult
    before: int
    after: int

    @property
    def share(self) -> float:
        """The flood's answers a CPU second over the peak's."""
        return self.flood / self.peak

    @property
    def growth(self) -> float:
        """Memory after the flood over memory before the flood."""
        return self.after / self.before

    def tell(self, report: Report) -> None:
        """Add rows and targets."""
        answers, clients = self.answers, f"{CLIENTS} clients"
        report.figures["Overload"] |= {
            "answers a CPU second of the owner, peak / flood": f"{self.peak:,.0f} / {self.flood:,.0f}",
            "answers in the flood: 200 / refused / lost": f"{answers.ok:,} / {answers.bad:,} / {answers.lost:,}",
            "all answers in the flood": f"p50 {answers.p50_ms:.1f} ms, p99 {answers.p99_ms:.1f} ms",
        }
        report.targets += [
            Target(f"{clients}: answers a CPU second, of the peak's", self.share, 0.8, 0.9, "%", at_least=True),
            Target(f"{clients}: memory after over before", self.growth, 1.1, unit="x"),
        ]


def measure(read: Read) -> Overload:
    """`read` is the owner's, with the process tree "owner"."""
    say(f"{CLIENTS} clients without pause")
    tree = {"owner": read.trees["owner"]}
    wrk.run(read.address, read.paths, Clients(FEW, PEAK_S))
    meter = cpu.Meter(tree)
    peak = wrk.run(read.address, read.paths, Clients(FEW, PEAK_S, tally=True)).ok / meter.read().cpu["owner"]
    before, meter = cpu.resident(tree["owner"]), cpu.Meter(tree)
    answers = wrk.run(read.address, read.paths, Clients(CLIENTS, FLOOD_S, tally=True))
    flood = answers.ok / meter.read().cpu["owner"]
    return Overload(peak, flood, answers, before, cpu.resident(tree["owner"]))
