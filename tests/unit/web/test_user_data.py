"""The export of a user."""

from streamstate.state.memory import MemoryStore
from streamstate.state.operations import HistoryDays
from streamstate.web.user_data import of_user


def test_nothing_is_held_in_a_history_without_days() -> None:
    read = HistoryDays("events", "42")
    [nothing] = MemoryStore().read({0: [read]})[0].values
    assert not of_user(read, nothing)
    assert of_user(read, (0, {20_000: "[1]\n"})) == {20_000: "[1]\n"}
