"""What operators and clients keep out of lists, from the state: rules in memory, shown items read at a request."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog
from redis.exceptions import RedisError

from services.events import KINDS
from services.recommendations.control.rules import RECOMMENDATION_RULES, RULES, RuleSet, stored
from services.recommendations.control.shown import SHOWN, place
from streamstate.app import App
from streamstate.deployment.background import keep_running
from streamstate.state.operations import Value
from streamstate.state.store import Store
from streamstate.web.http.problems import not_ready
from streamstate.web.state import AppState

log = structlog.get_logger()

POLL_S = 1.0
NO_RULES = RuleSet({})
NOTHING_SHOWN: Mapping[str, Sequence[int]] = dict.fromkeys(KINDS, ())


class Control(NamedTuple):
    """What a request leaves out: by rules, and the ids of shown items by kind."""

    rules: RuleSet = NO_RULES
    shown: Mapping[str, Sequence[int]] = NOTHING_SHOWN


class Rules:
    """The rules of `topic`, followed in the store once a second. `step` is for a single thread."""

    def __init__(self, store: Store, topic: str) -> None:
        self._store, self._topic = store, topic
        self._read: dict[int, tuple[int, int]] = {}
        self._now: RuleSet | None = None

    async def start(self) -> None:
        """Follow the store for as long as the process lives."""
        keep_running("the rules", self._follow, POLL_S)

    def now(self) -> RuleSet:
        """The rules; raises a 503 `Problem` until they are complete for the first time."""
        if self._now is None:
            detail = f"the rules of {self._topic} are being loaded"
            raise not_ready(detail)
        return self._now

    def step(self) -> None:
        """Read changed rules."""
        origin = self._store.read({0: []})[0].origins.get(self._topic)
        if origin is None:
            return
        snapshots = self._store.read({partition: [] for partition in range(origin.partitions)})
        read = {p: (snapshot.epoch, snapshot.positions.get(self._topic, 0)) for p, snapshot in snapshots.items()}
        # While a state is built, the rules of before stay.
        if read == self._read or not all(snapshot.ready([self._topic]) for snapshot in snapshots.values()):
            return
        parts = self._store.read({partition: [Value(RULES)] for partition in range(origin.partitions)})
        if not all(part.continues(snapshots[partition]) for partition, part in parts.items()):
            return
        rules = {key: rule for part in parts.values() for key, rule in stored(part.values[0]).items()}
        self._now, self._read = RuleSet(rules), read
        log.info("the rules are read", rules=len(rules))

    def _follow(self) -> None:
        try:
            self.step()
        except RedisError as error:
            log.warning("the rules are not kept up now; tried again shortly", reason=str(error))


class Controls:
    """What an app's topics of rules and of shown items keep out of lists; nothing without the topics."""

    def __init__(self, app: App, state: AppState, rules: Rules | None, age_s: int) -> None:
        """`age_s`: how long a shown item is left out, 0 for ever."""
        sources = {source.own_name: source for source in app.sources}
        self._shown, self._state, self._rules, self._age_ms = sources.get(SHOWN), state, rules, age_s * 1000

    async def of(self, user: int | None) -> Control:
        """For a list to `user`. Raises a 503 `Problem` while the rules are not loaded."""
        rules = self._rules.now() if self._rules else NO_RULES
        if self._shown is None or user is None:
            return Control(rules)
        topic = self._shown.topic
        partition = self._shown.partition(user, (await self._state.counts())[topic])
        snapshot = (await self._state.read({partition: [place(user)]}))[partition]
        self._state.require_ready(partition, snapshot, [topic])
        since = time.time() * 1000 - self._age_ms if self._age_ms else 0
        by_kind: dict[str, list[int]] = {kind: [] for kind in KINDS}
        for member, at in snapshot.values[0]:
            kind, item = member.split(":")
            if at >= since:
                by_kind[kind].append(int(item))
        return Control(rules, by_kind)


def rules(app: App, store: Store) -> Rules | None:
    """The rules of an app that reads their topic."""
    topics = [source.topic for source in app.sources if source.own_name == RECOMMENDATION_RULES]
    return Rules(store, topics[0]) if topics else None
