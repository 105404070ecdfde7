"""Where everything is read, the state stands at the end, whether a record is the last there or not."""

from streamstate.processing.offset_gaps import passed
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Put, Value
from streamstate.state.store import Commit, OffsetAdvance

READ = {"a": {"0": 7, "1": 9}, "b": {"0": 3}, "c": {"0": 2}, "elsewhere": {"1": 9}}


def test_the_state_goes_to_where_all_is_read_and_keeps_what_it_holds() -> None:
    store = MemoryStore()
    claim = store.claim(0, "a:1", {"a": 7, "b": 3, "c": 2})
    store.commit(Commit(claim, [OffsetAdvance("a", None, 5, 50)], [Put("k", "v")]))
    store.commit(Commit(claim, [OffsetAdvance("c", None, 2, 20)], []))
    commit = passed(claim, store.read({0: []})[0], READ)
    assert commit == Commit(claim, [OffsetAdvance("a", 5, 7, 50), OffsetAdvance("b", None, 3, 0)], [])
    store.commit(commit)
    found = store.read({0: [Value("k")]})[0]
    assert (found.positions, found.times, found.values) == ({"a": 7, "b": 3, "c": 2}, {"a": 50, "b": 0, "c": 20}, ["v"])
    assert found.ready("abc")
    assert passed(claim, found, READ) is None


def test_the_state_never_goes_back() -> None:
    store = MemoryStore()
    claim = store.claim(0, "a:1", {})
    store.commit(Commit(claim, [OffsetAdvance("a", None, 5)], []))
    assert passed(claim, store.read({0: []})[0], {"a": {"0": 4}, "b": {"1": 9}}) is None
