"""What the folds send out, held against its causes: each at least once, and nothing else."""

from collections.abc import Sequence

import pytest
from confluent_kafka import Message

from streamstate.kafka.dead_letters import SOURCE_HEADER
from streamstate.verify.derived_topics import Derived, Effects, by_header, dead_letters

CONTENTS = [b"one", None, b"two"]


def derived() -> Derived:
    """Of partition 3 of `in`, offsets 5 and 7 have effects; the state stands at 9."""
    effects = Effects()
    for offset, content in enumerate(CONTENTS, start=5):
        effects.add(offset, content)
    effects.reach(9)
    made = Derived("out", by_header, lambda record: record.value() or b"")
    made.expected["in", 3] = effects
    return made


def record(cause: str, value: bytes) -> Message:
    return Message(topic="out", partition=1, offset=2, value=value, headers=[(SOURCE_HEADER, cause.encode())])


def found(records: Sequence[Message]) -> list[str]:
    return [str(difference) for difference in derived().differences(records)]


GOOD = [record("in:3:5", b"one"), record("in:3:7", b"two")]


def test_each_effect_may_come_several_times() -> None:
    assert found([*GOOD, *GOOD]) == []


def test_causes_that_the_state_has_yet_to_reach_do_not_count() -> None:
    assert found([*GOOD, record("in:3:9", b"soon")]) == []


def test_a_missing_effect_is_named_by_its_cause() -> None:
    assert found(GOOD[:1]) == ["in:3:7: is missing in out"]


@pytest.mark.parametrize("wrong", [record("in:3:7", b"other"), record("in:3:6", b"one"), record("in:3:0", b"")])
def test_another_content_is_a_difference(wrong: Message) -> None:
    cause = by_header(wrong)
    assert found([*GOOD, wrong]) == [f"out:1:2: is not what {cause} causes"]


@pytest.mark.parametrize("cause", ["", "in:2:5", "other:3:5", "in", ":::"])
def test_a_cause_that_is_not_folded_is_a_difference(cause: str) -> None:
    assert found([*GOOD, record(cause, b"one")]) == [
        f"out:1:2: names {cause or 'nothing'} as its cause, which is not folded"
    ]


def test_a_dead_letter_names_its_cause_in_its_key() -> None:
    letters = dead_letters("app")
    letters.expected["in", 3] = Effects()
    letters.expected["in", 3].add(0, (None,))
    assert letters.topic == "app-dlq"
    assert list(letters.differences([Message(topic="app-dlq", partition=0, offset=0, key=b"in:3:0")])) == []
