"""Calls to instances of which one is slow."""

from streamstate.web.bulkhead import SLOW_S, Bulkhead

SLOW = 2 * SLOW_S


def test_calls_that_are_answered_are_not_bounded() -> None:
    bulkhead = Bulkhead(2)
    assert all(bulkhead.enter("a", 0.0) for _ in range(9))


def test_a_slow_instance_gets_no_more_than_it_may() -> None:
    bulkhead = Bulkhead(2)
    calls = [bulkhead.enter("a", 0.0), bulkhead.enter("a", SLOW)]
    assert None not in calls
    assert bulkhead.enter("a", SLOW) is None
    assert bulkhead.enter("b", SLOW)


def test_there_is_room_again_when_the_slow_call_has_ended() -> None:
    bulkhead = Bulkhead(2)
    first, second = bulkhead.enter("a", 0.0), bulkhead.enter("a", SLOW)
    assert first
    assert second
    assert bulkhead.enter("a", SLOW) is None
    bulkhead.leave("a", first)
    assert bulkhead.enter("a", SLOW)
    assert bulkhead.enter("a", SLOW), "the oldest is young by now"
