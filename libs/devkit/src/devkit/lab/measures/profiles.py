"""Profiles beside a fold written by hand, and beside each other, in one process over a Redis of its own."""

import ast
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import structs

from devkit.demo import say
from devkit.lab.targets import Report, Target
from devkit.servers.child_process import free_port
from devkit.servers.redis import Redis
from services.events import KINDS, LISTENING_EVENTS, PLAYS, ListeningEvent
from services.metrics.model import Metrics
from streamstate import bootstrap
from streamstate.app import App, Effect, Fold, FoldContext, Record
from streamstate.cli.profiles.plan import Planning
from streamstate.keys import LONG, sortable
from streamstate.processing.decode import RawRecord
from streamstate.profile import EVER, profile_app, profile_fold, profile_view
from streamstate.profile.answer import Moment, ProfileView
from streamstate.profile.declaration import Declaration
from streamstate.profile.file import parse
from streamstate.profile.fold import ProfileFold
from streamstate.state.operations import DAY_MS, IncrementScores, Merge
from streamstate.state.redis_connections import connect
from streamstate.testing import Driver

END_MS = 1_767_268_800_000  # at noon
ATTRIBUTES = {"artistId": "artist_id", "albumId": "album_id", "trackId": "track_id", "playedAt": "timestamp"}
EVENTS, USERS, TOGETHER, ROUNDS = 200_000, 10_000, 2_000, 3
QUIET, BUSY = USERS + 1, USERS + 2
"""A user with 21 plays in 30 days, and a user with 1,000 plays a day."""
READS = {QUIET: 1_000, BUSY: 200}
PLAIN = """
name: plain
topic: listening-events
key: long
path: /v1/users/<key>/plain
fields: {artistId: int, userId: int}
measures: {plays: {count: all, over: [1h, 7d, ever]}, artists: {top: 10, of: artistId}}
"""
FEATURES = {
    "a rule": (3, PLAIN + "rules: {binge: {when: {plays: {gt: 50}}, over: 1h}}"),
    "an index": (1.6, PLAIN.replace("ever]", "ever], index: true")),
    "the key from a member": (1.5, PLAIN.replace("key: long", "key: value.userId")),
}
"""With the limits of their CPU over that of the plain profile."""
LINES = {"words": 35, "metrics": 60, "clicks": 80, "notifications": 90}  # at most


def by_hand(records: Sequence[Record[int, ListeningEvent]], _context: FoldContext) -> Iterable[Effect]:
    """The measures of metrics, without a declaration."""
    plays: defaultdict[int, list[ListeningEvent]] = defaultdict(list)
    for record in records:
        plays[record.key].append(record.value)
    for user, events in plays.items():
        times = [event.timestamp for event in events]
        yield Merge(f"user:{user}", add={"count": len(events)}, least={"first": min(times)}, most={"last": max(times)})
        for kind, ids in zip(KINDS, zip(*(event.ids() for event in events), strict=True), strict=True):
            counts: dict[str, int] = {}
            for each in map(sortable, ids):
                counts[each] = counts.get(each, 0) + 1
            yield IncrementScores(f"user:{user}:{kind}", counts)


def app(declared: Declaration) -> App:
    """The use case of a declaration over the typed plays of metrics."""
    fold = profile_fold(declared, PLAYS, ProfileFold(declared, ATTRIBUTES))
    return App(declared.name, (fold,), (profile_view(declared, ProfileView(declared)),))


def over(name: str, *windows: str) -> Declaration:
    """The measures of metrics, with count and tops over `windows`."""
    measures = {
        each: structs.replace(words, over=[*windows]) if words.count or words.top else words
        for each, words in Metrics.declared.measures.items()
    }
    return structs.replace(Metrics.declared, name=name, measures=measures, compact=False)


def play(random: Random, offset: int, at: int, user: int) -> RawRecord:
    artist = int(3_000 ** random.random())
    event = ListeningEvent(user, artist, 3 * artist + random.randrange(3), 20 * artist + random.randrange(20), at)
    return offset, at, LONG.encode(user), msgspec.json.encode(event)


def events() -> list[RawRecord]:
    """Plays of 8 days by users with few and many plays, in the order of their times."""
    random = Random(1)  # noqa: S311, nothing secret
    times = sorted(END_MS - random.randrange(8 * DAY_MS) for _ in range(EVENTS))
    return [play(random, offset, at, int(USERS ** random.random())) for offset, at in enumerate(times)]


def listeners() -> list[RawRecord]:
    """The plays of `QUIET` and `BUSY` in 30 days."""
    random = Random(2)  # noqa: S311, nothing secret
    users = [QUIET] * 21 + [BUSY] * 30_000
    plays = [(END_MS - random.randrange(30 * DAY_MS), user) for user in users]
    return [play(random, offset, at, user) for offset, (at, user) in enumerate(sorted(plays))]


class Lab:
    """Apps over one Redis, measured in CPU seconds of this process and Redis."""

    def __init__(self, redis: Redis) -> None:
        self.client: Any = connect(redis.url, 60)

    def cpu(self) -> float:
        """CPU seconds so far."""
        used = self.client.info("cpu")
        return float(time.process_time() + used["used_cpu_user"] + used["used_cpu_sys"])

    def memory(self, kind: str = "") -> int:
        """Bytes of Redis; of the keys with `kind` in their names."""
        if not kind:
            return int(self.client.info("memory")["used_memory"])
        return sum(self.client.memory_usage(key, samples=0) for key in self.client.scan_iter(f"*{kind}*", 1_000))

    def fold(self, of: App, records: Sequence[RawRecord]) -> tuple[Driver, float, int]:
        """The app after `records`; CPU seconds and bytes of its state."""
        self.client.flushall()
        driver = Driver(of, bootstrap.store_over(self.client, of.name))
        cpu, memory = self.cpu(), self.memory()
        for first in range(0, len(records), TOGETHER):
            driver.feed(0, {LISTENING_EVENTS: records[first : first + TOGETHER]})
            sent, driver.emitted = driver.emitted, []
            if own := [emit for emit in sent if emit.topic in of.own]:
                rows = [(number, emit.cause.timestamp, emit.key, emit.value) for number, emit in enumerate(own, first)]
                driver.feed(0, {own[0].topic: rows})
        return driver, self.cpu() - cpu, self.memory() - memory

    def read(self, driver: Driver, user: int) -> float:
        """CPU seconds of one answer at the end of all plays."""
        (view,) = driver.app.views
        query = Moment(END_MS) if view.query else None
        driver.view(view.name, user, query)
        cpu = self.cpu()
        for _ in range(READS[user]):
            driver.view(view.name, user, query)
        return (self.cpu() - cpu) / READS[user]


def measure(home: Path, report: Report) -> None:
    """Measure events, memory, reads and plans."""
    home.mkdir(parents=True)
    with Redis(home, free_port()) as redis:
        lab, records = Lab(redis), events()
        report.profiles += [*of_events(lab, records), *of_features(lab, records), *of_reads(lab), of_plan(lab, records)]
        report.profiles += of_lines()


def of_events(lab: Lab, records: Sequence[RawRecord]) -> Iterator[Target]:
    """CPU an event beside a fold written by hand, and the memory of rankings and histories."""
    say("folding profiles beside a fold written by hand")
    hand, windowed = App("hand", (Fold((PLAYS,), by_hand),)), app(over("windowed", EVER, "1h", "7d", "30d"))
    beside = {
        "metrics, not compact": (1.05, app(structs.replace(Metrics.declared, compact=False))),
        "metrics": (1.3, app(Metrics.declared)),
        "windows of 1 h, 7 d, 30 d": (1.6, windowed),
    }
    yield from _ratios(lab, records, "CPU an event over a fold by hand: {}", hand, beside)
    decoded = [(key, msgspec.json.decode(value or b"", type=ListeningEvent)) for _, _, key, value in records]
    values = len({(key, *ranked) for key, event in decoded for ranked in enumerate(event.ids())})
    lab.fold(app(Metrics.declared), records)
    yield Target("memory of a ranked value, with keys", lab.memory(".values") / values, 16, unit="bytes")
    lab.fold(windowed, records)
    history = lab.memory(":events") / (EVENTS * len(KINDS))
    yield Target("memory of a play and kind in windows, with keys", history, 20, unit="bytes")


def of_features(lab: Lab, records: Sequence[RawRecord]) -> Iterator[Target]:
    """CPU an event of a profile with a feature over that of the profile without."""
    say("folding profiles with a rule, an index and a key from the value")
    beside = {what: (limit, profile_app(parse(text))) for what, (limit, text) in FEATURES.items()}
    return _ratios(lab, records, "CPU an event with {} over without", profile_app(parse(PLAIN)), beside)


def _ratios(
    lab: Lab, records: Sequence[RawRecord], what: str, first: App, beside: Mapping[str, tuple[float, App]]
) -> Iterator[Target]:
    """The CPU of apps over that of `first`, in paired rounds after a warm-up. beside: a limit and the app, by name."""
    apps = [first, *(other for _, other in beside.values())]
    _warm_up, *rounds = [[lab.fold(each, records)[1] for each in apps] for _ in range(1 + ROUNDS)]
    for number, (name, (limit, _)) in enumerate(beside.items(), start=1):
        ratio = statistics.median(used[number] / used[0] for used in rounds)
        yield Target(what.format(name), ratio, limit, unit="x")


def of_reads(lab: Lab) -> list[Target]:
    """CPU of answers of a user with 21 plays, and of a user with 1,000 plays a day."""
    say("reading profiles of quiet and busy users")
    costs: dict[tuple[str, int], float] = {}
    for label in (EVER, "7d", "30d"):
        driver, _, _ = lab.fold(app(over(f"over-{label}", label)), listeners())
        costs |= {(label, user): lab.read(driver, user) for user in READS}
    targets = []
    for label, limit in (("7d", 2), ("30d", 3)):
        windowed = costs[label, QUIET]
        what = f"answer over {label}: CPU"
        targets += [
            Target(f"{what} over all time's, 21 plays", windowed / costs[EVER, QUIET], limit, unit="x"),
            Target(f"{what} of 1,000 plays a day over 21 plays", costs[label, BUSY] / windowed, 5, unit="x"),
        ]
    return targets


def of_plan(lab: Lab, records: Sequence[RawRecord]) -> Target:
    """The estimate of `streamstate profile plan` from a tenth of the records beside the memory that Redis takes."""
    of = profile_app(declared := over("planned", EVER, "7d"))
    *_, truth = lab.fold(of, records)
    lab.client.flushall()
    plan = Planning(declared, of, {0: EVENTS}, lambda _partitions: ((0, record) for record in records), END_MS, DAY_MS)
    estimate = plan.plan(lab.client, EVENTS // 10).bytes_together
    return Target("`profile plan`: error of the memory", abs(estimate / truth - 1), 0.2, unit="%")


def of_lines() -> Iterator[Target]:
    """What a newcomer meets: the lines of services and of a profile, and the names of the smallest service."""
    for name, most in LINES.items():
        lines = sum(path.read_text().count("\n") for path in Path("services", name).glob("*.py"))
        yield Target(f"lines of {name}", lines, most, unit="lines")
    declared = re.search(r"^```yaml\n#[^\n]*\n(.*?)^```", Path("docs/profile.md").read_text(), re.DOTALL | re.MULTILINE)
    yield Target("lines of a profile of four measures", declared[1].count("\n") if declared else 0, 12, unit="lines")
    tree = ast.parse(Path("services/words/model.py").read_text())
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imported if (node.module or "").startswith("streamstate")]
    yield Target("names of the library in words", sum(len(node.names) for node in ours), 8, unit="names")
    yield Target("modules of the library in words", len(ours), 3, unit="modules")
