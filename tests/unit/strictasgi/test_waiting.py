"""Which connections are ended, and when."""

import pytest

from strictasgi.waiting import IDLE_S, PATIENCE_S, Waiting


class Clients:
    """Connections by name, on a clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ended: list[str] = []
        self.waiting = Waiting(lambda: self.now)

    def client(self, name: str) -> "Client":
        return Client(self, name)

    def overdue(self, now: float) -> list[str]:
        """Those that are ended at `now`."""
        self.now, self.ended = now, []
        self.waiting.end_overdue()
        return self.ended


class Client:
    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self._name = name

    def end(self) -> None:
        self._clients.ended.append(self._name)


@pytest.fixture
def clients() -> Clients:
    return Clients()


def test_who_does_not_ask_in_time_is_ended(clients: Clients) -> None:
    clients.waiting.hurry(clients.client("new"))
    clients.waiting.keep(clients.client("kept"))
    assert clients.overdue(PATIENCE_S) == []
    assert clients.overdue(PATIENCE_S + 1) == ["new"]
    assert clients.overdue(IDLE_S) == []
    assert clients.overdue(IDLE_S + 1) == ["kept"]
    assert clients.overdue(2 * IDLE_S) == []


def test_more_of_a_head_gives_no_more_time(clients: Clients) -> None:
    slow = clients.client("slow")
    clients.waiting.hurry(slow)
    clients.now = PATIENCE_S
    clients.waiting.hurry(slow)
    assert clients.overdue(PATIENCE_S + 1) == ["slow"]


def test_a_head_that_begins_on_a_kept_connection_has_the_time_of_a_head(clients: Clients) -> None:
    kept = clients.client("kept")
    clients.waiting.keep(kept)
    clients.now = 30
    clients.waiting.hurry(kept)
    assert clients.overdue(30 + PATIENCE_S) == []
    assert clients.overdue(30 + PATIENCE_S + 1) == ["kept"]


def test_who_is_answered_does_not_wait(clients: Clients) -> None:
    for wait in (clients.waiting.hurry, clients.waiting.keep):
        client = clients.client("answered")
        wait(client)
        clients.waiting.cancel(client)
    assert clients.overdue(2 * IDLE_S) == []


def test_the_one_that_waits_longest_goes_first(clients: Clients) -> None:
    clients.waiting.end_oldest()
    for now, wait in enumerate([clients.waiting.keep, clients.waiting.hurry, clients.waiting.keep]):
        clients.now = now
        wait(clients.client(str(now)))
    for _ in range(4):
        clients.waiting.end_oldest()
    assert clients.ended == ["0", "1", "2"]
