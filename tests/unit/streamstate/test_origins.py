"""Whether a state may be read and continued with the topics as they are."""

from collections.abc import Mapping

import pytest

from streamstate.errors import Misconfigured
from streamstate.processing.topic_identity import require_same_topics, require_same_widths
from streamstate.state.store import Origin

THEN = {"plays": Origin("a", 8), "names": Origin("b", 4)}
BUILT = [{}, THEN]


@pytest.mark.parametrize("now", [THEN, {**THEN, "more": Origin("c", 2)}, {"plays": Origin("a", 8)}])
def test_a_state_goes_on_with_the_topics_that_it_knows(now: Mapping[str, Origin]) -> None:
    require_same_topics(BUILT, now)
    require_same_widths(BUILT, {topic: origin.partitions for topic, origin in now.items()})


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (Origin("z", 8), "plays was deleted and made anew.* `streamstate reset SERVICE`"),
        (Origin("z", 12), "plays was deleted and made anew"),
        (Origin("a", 12), "plays has 12 partitions and had 8"),
    ],
)
def test_a_state_of_another_topic_is_not_continued(now: Origin, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        require_same_topics(BUILT, {**THEN, "plays": now})


def test_a_state_is_not_read_by_another_number_of_partitions() -> None:
    with pytest.raises(Misconfigured, match="copy the records to a new topic of 5 partitions"):
        require_same_widths(BUILT, {"plays": 8, "names": 5})
