"""No caller gets more work for a price than by reading: what a limit allows of one kind, it allows of all."""

import sys
from typing import Any

import pytest
from werkzeug.test import Client

from services.gateway.access.limits import Limiter, Spent
from tests.serving import Loop
from tests.unit.gateway.deployment import USER
from tests.unit.gateway.guarding import ADMIN, Guarded
from tests.unit.gateway.test_found_keys import COUNT, FIND, Visits

READ = f"/v1/users/{USER}/metrics"
HUNDRED = ",".join(map(str, range(100)))
WAYS = {
    "a long unknown path": "/v1" + "/a" * 3_000,
    "one key many times": "/v1/many?" + "&".join([f"metrics={USER}"] * 200),
    "many keys": "/v1/many?" + "&".join(f"metrics={user}" for user in range(200)),
    "many users": "/v1/many?" + "&".join(f"users={user}" for user in range(1, 100)),
    "values of a comparison": f"{FIND}?where=visits_ever.in.{HUNDRED}",
    "comparisons": f"{COUNT}?" + "&".join(["where=visits_7d.ge.1"] * 8),
    "a range": f"{FIND}?where=visits_ever.ge.0&limit=1000",
    "parameters": f"{READ}?" + "&".join(f"p{number}=1" for number in range(200)),
    "the document": "/openapi.json",
    "names of the state": "/v1/users?q=4",
    "the system": "/v1/system",
    "a profile over all keys": "/v1/plays",
    "a user whom nobody knows": f"/v1/users/{2**62}/metrics",
}


class Meter:
    """Counts the functions that gateway and instances call for a request, and what its caller pays.

    Calls are the same on each machine, unlike time.
    """

    def __init__(self, client: Client, loop: Loop, key: str, patch: pytest.MonkeyPatch) -> None:
        self._client, self._loop, self._key = client, loop, key
        self._calls = self._paid = 0
        spend, charge = Limiter.spend, Limiter.charge

        async def spending(limiter: Limiter, name: str, rate: int, tokens: int) -> Spent:
            self._paid += tokens if name.endswith(":cost") else 0
            return await spend(limiter, name, rate, tokens)

        def charging(limiter: Limiter, name: str, tokens: int) -> None:
            self._paid += tokens
            charge(limiter, name, tokens)

        patch.setattr(Limiter, "spend", spending)
        patch.setattr(Limiter, "charge", charging)

    def of(self, path: str) -> tuple[int, int]:
        """The calls and the price of a request, with warm caches."""
        for _ in range(2):
            self._calls = self._paid = 0
            self._loop.run(self._profile(self._count))
            answer = self._client.get(path, headers={"Authorization": f"Bearer {self._key}", "X-Deadline-Ms": "30000"})
            self._loop.run(self._profile(None))
            assert answer.status_code < 500, path
        return self._calls, self._paid

    def _count(self, _frame: object, event: str, _argument: object) -> None:
        self._calls += event in ("call", "c_call")

    async def _profile(self, count: Any) -> None:
        sys.setprofile(count)


@pytest.fixture
def meter(guarded: Guarded, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Meter:
    # Calls are counted slowly.
    guarded.deployment.http = {**guarded.deployment.http, "deadline_ms": 30_000}
    Visits(guarded.deployment).feed(dict.fromkeys(range(300), 3))
    return Meter(guarded.deployment.gateway(), loop, guarded.keys[ADMIN], monkeypatch)


def test_no_price_buys_more_work_than_reads_do(meter: Meter) -> None:
    calls, price = meter.of(READ)
    dear = {}
    for name, path in WAYS.items():
        done, paid = meter.of(path)
        dear[name] = round(done / max(1, paid) / (calls / price), 2)
    assert {name: times for name, times in dear.items() if times > 2} == {}
