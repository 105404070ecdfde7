"""Users who were not seen for a while, by the time of the stream, are forgotten; real Kafka, Redis and Spark."""

import pytest

from devkit import topics
from streamstate.state.operations import Fields
from tests.deployment import USER, Deployment
from tests.integration.driving import SETTLED_S
from tests.waiting import until

OTHER = USER + 1
BEGIN_MS, EXPIRE_MS = 1_750_000_000_000, 86_400_000


@pytest.fixture
def expiring(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of a stream of `deployment` whose users expire."""
    deletions = f"{deployment.name}-deletions"
    topics.create(deployment.cluster.kafka.bootstrap, {deletions: {"cleanup.policy": "compact"}}, 1)
    # For the command.
    monkeypatch.setenv("STREAMSTATE_DELETIONS", deletions)
    return {"DELETIONS": deletions, "USERS_EXPIRE_MS": str(EXPIRE_MS)}


def counts(deployment: Deployment) -> list[int | None]:
    """The plays of both users; None for an unknown user."""
    [snapshot] = deployment.store.read({0: [Fields(f"numbers:{user}") for user in (USER, OTHER)]}).values()
    return [user.get("#") for user in snapshot.values]


def test_who_was_not_seen_for_too_long_begins_anew(deployment: Deployment, expiring: dict[str, str]) -> None:
    deployment.put(BEGIN_MS)
    deployment.put(BEGIN_MS + EXPIRE_MS + 1, user=OTHER)
    stream = deployment.stream(**expiring)
    deployment.folded(2)
    assert counts(deployment) == [1, 1]
    # The stream looks for expired users at the start, and then every ten minutes.
    stream.stop()
    deployment.stream(**expiring)
    until(lambda: counts(deployment) == [None, 1], SETTLED_S, "the user to be forgotten")

    deployment.put(BEGIN_MS + EXPIRE_MS + 2)
    deployment.folded(3)
    assert counts(deployment) == [1, 1]
    assert deployment.command("verify")["differences"] == []
    deployment.empty()
    deployment.folded(3)
    assert counts(deployment) == [1, 1]
