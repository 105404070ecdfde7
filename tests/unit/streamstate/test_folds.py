"""Whether a state may be read and continued by the folds of this release."""

import pytest
from msgspec.structs import replace

from streamstate.app import App, Fold, Setting, Source
from streamstate.errors import Misconfigured
from streamstate.keys import TEXT
from streamstate.processing.fold_identity import require_same_folds
from streamstate.state.memory import MemoryStore
from streamstate.state.store import FORMAT, Commit, OffsetAdvance, Snapshot


def app(version: int = 1, **settings: Setting) -> App:
    source = Source("plays", TEXT, lambda _key, value: value)
    return App("metrics", (Fold((source,), lambda _records, _context: (), version=version, settings=settings),))


def made_by(app: App) -> Snapshot:
    store = MemoryStore()
    claim = store.claim(0, "a:1", {}, folds=app.declarations)
    store.commit(Commit(claim, [OffsetAdvance("plays", None, 1)], []))
    return store.read({0: []})[0]


@pytest.mark.parametrize("state", [made_by(app(2, size_ms=5, on=True)), replace(made_by(app()), folds={}, format=None)])
def test_a_state_goes_on_with_the_fold_that_made_it_or_that_it_does_not_name(state: Snapshot) -> None:
    require_same_folds(app(2, on=True, size_ms=5), ["plays"], [state])


@pytest.mark.parametrize("now", [app(1, size_ms=5), app(2, size_ms=6), app(2), app(2, size_ms=5, more=1)])
def test_another_version_or_setting_is_refused_with_both_and_the_ways_out(now: App) -> None:
    before = app(2, size_ms=5)
    with pytest.raises(Misconfigured) as refused:
        require_same_folds(now, ["plays"], [made_by(before)])
    ways_out = "go back to the release", "STREAMSTATE_NAME", "`streamstate reset SERVICE`"
    for part in (before.declarations["plays"], now.declarations["plays"], *ways_out):
        assert part in str(refused.value)


def test_another_fold_is_no_matter_to_other_topics() -> None:
    require_same_folds(app(2), [], [made_by(app(1))])


def test_another_format_is_refused() -> None:
    later = replace(made_by(app()), format=FORMAT + 1)
    with pytest.raises(Misconfigured, match=f"format {FORMAT + 1}, and this release {FORMAT}; go back"):
        require_same_folds(app(), ["plays"], [later])
