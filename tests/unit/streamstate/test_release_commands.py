"""The commands about releases: their texts, and repeats after a kill."""

import random
from typing import Any

import pytest

from streamstate.cli.releases.beside import Side
from streamstate.cli.releases.progress import _done
from streamstate.cli.releases.promote import Promotion, _text
from streamstate.cli.services import deployment
from streamstate.errors import Declined
from streamstate.kafka.admin import Member
from streamstate.releases.record import Place, Releases, first, next_release, next_write, previous_release, staged
from streamstate.state.store import Snapshot

PLACE: Place = "plays", 0
BOTH = staged(first("metrics"), "metrics-2")


def promoted(record: Releases, release: str) -> Releases:
    while (after := next_write(record, release, {})) is not None:
        record = after
    return record


@pytest.mark.parametrize("seed", range(30))
def test_a_command_that_is_killed_between_its_writes_does_the_same_when_run_again(seed: int) -> None:
    dice = random.Random(seed)
    names = "metrics", "metrics-2", "metrics-3"
    record = staged(BOTH, "metrics-3")
    for _ in range(20):
        goal = dice.choice([name for name in names if name != record.live])
        back = dice.random() < 0.5 and len({turn.release for turn in record.turns}) > 1
        if back:
            goal = previous_release(record)
        half = next_write(record, goal, {})
        assert half
        assert (previous_release(half) if back else next_release(half)) == goal
        record = promoted(record, goal)
        assert record.live == goal


def test_the_way_back_from_an_interrupted_promotion_keeps_the_live_release() -> None:
    record = staged(promoted(BOTH, "metrics-2"), "metrics-3")
    half = next_write(record, "metrics-3", {})
    assert half
    assert previous_release(half) == "metrics-2"
    assert promoted(half, "metrics-2").live == "metrics-2"


def test_the_answer_names_the_command_that_undoes_it() -> None:
    def text(before: Releases, live: str, undo: str) -> str:
        return _text(Promotion("metrics", before.live, live, {}, [], [], 0.1, dry_run=False), before, undo)

    forth = text(BOTH, "metrics-2", "streamstate back metrics")
    assert forth == (
        "metrics-2 is live and publishes in place of metrics, after 0.10 s; `streamstate back metrics` undoes it"
    )
    half = next_write(BOTH, "metrics-2", {})
    assert half
    assert text(half, "metrics-2", "streamstate back metrics") == forth
    assert text(half, "metrics", "") == (
        "metrics stays live and publishes, after 0.10 s; the promotion of metrics-2 is undone"
    )


def side(members: dict[str, Any], owner: str | None) -> Side:
    """A release with a state of one partition, and what `look` reads of it."""
    snapshot = Snapshot(owner, 0, {}, {}, {}, {}, {}, ())
    return Side(deployment("metrics"), {0: snapshot}, members, {PLACE: 5}, [])


def test_a_release_is_starting_until_a_stream_has_run() -> None:
    new = side({}, None)
    assert (new.word, new.started) == ("starting", False)
    assert not _done(new, 1)
    with pytest.raises(Declined, match="no stream has joined the consumer group metrics for 120 s; start it"):
        _done(new, 121)
    assert side({}, "127.0.0.1:8101").word == "failing"
    assert side({"stream-0": Member(frozenset())}, None).word == "building"
