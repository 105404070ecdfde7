"""What the folds send out, held against its causes: each at least once, and nothing else."""

from collections.abc import Sequence

import pytest
from confluent_kafka import Message

from streamstate.kafka.dead_letters import TOPIC_HEADER, TOPIC_ID_HEADER
from streamstate.marker import HEADER
from streamstate.verify.derived_topics import DerivedTopicCheck, Effects, by_marker, dead_letters

CONTENTS = [b"one", None, b"two"]


def derived() -> DerivedTopicCheck:
    """Of partition 3 of `in`, offsets 5 and 7 have effects; the state stands at 9."""
    effects = Effects()
    for offset, content in enumerate(CONTENTS, start=5):
        effects.add(offset, content)
    effects.reach(9)
    made = DerivedTopicCheck("out", by_marker, lambda record: record.value() or b"")
    made.expected["in", 3] = effects
    return made


def record(cause: str, value: bytes) -> Message:
    return Message(topic="out", partition=1, offset=2, value=value, headers=[(HEADER, cause.encode())])


def found(records: Sequence[Message]) -> list[str]:
    return [str(difference) for difference in derived().differences(records)]


GOOD = [record("in:3:5:0", b"one"), record("in:3:7:0", b"two")]


def test_each_effect_may_come_several_times() -> None:
    assert found([*GOOD, *GOOD]) == []


@pytest.mark.parametrize("cause", ["in:3:9:0", "in:2:5:0", "recreated:3:5:0"])
def test_causes_that_are_not_folded_do_not_count(cause: str) -> None:
    assert found([*GOOD, record(cause, b"another")]) == []


def test_a_missing_effect_is_named_by_its_cause() -> None:
    assert found(GOOD[:1]) == ["in:3:7: is missing in out"]


def test_an_effect_that_was_too_large_for_the_topic_is_not_missing() -> None:
    assert list(derived().differences(GOOD[:1], {("in", 3, 7), ("in", 3, 100), ("other", 0, 0)})) == []


@pytest.mark.parametrize("wrong", [record("in:3:7:0", b"other"), record("in:3:6:0", b"one"), record("in:3:0:0", b"")])
def test_another_content_is_a_difference(wrong: Message) -> None:
    cause = by_marker(wrong)
    assert cause is not None
    assert found([*GOOD, wrong]) == [f"out:1:2: is not what in:3:{cause[2]} causes"]


@pytest.mark.parametrize("cause", ["", "in:3:5", "in:3:5:", "in", ":::", "a:b:c:d"])
def test_a_record_without_a_cause_is_a_difference(cause: str) -> None:
    assert found([*GOOD, record(cause, b"one")]) == ["out:1:2: names no cause"]


@pytest.mark.parametrize(("topic_id", "count"), [(b"id", 0), (b"of an earlier topic", 1)])
def test_a_dead_letter_names_its_cause_in_its_key_and_the_id_of_its_topic(topic_id: bytes, count: int) -> None:
    letters = dead_letters("app-dlq")
    letters.expected["id", 3] = Effects()
    letters.expected["id", 3].add(0, (None,))
    letter = Message(topic="app-dlq", partition=0, offset=0, key=b"in:3:0", headers=[(TOPIC_ID_HEADER, topic_id)])
    assert len(list(letters.differences([letter]))) == count


def test_a_dead_letter_of_a_derived_record_is_judged_with_its_topic() -> None:
    headers: list[tuple[str, str | bytes | None]] = [(HEADER, b"id:3:0:0"), (TOPIC_HEADER, b"out")]
    letter = Message(topic="app-dlq", partition=0, offset=0, key=b"id:3:0:0", headers=headers)
    assert list(dead_letters("app-dlq").differences([letter])) == []
