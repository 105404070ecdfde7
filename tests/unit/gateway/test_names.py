"""Names are remembered for as long as their tables stand still."""

from services.gateway.names import NameCache, NamedObjects, Names
from services.gateway.owners import Owners
from tests.serving import Loop, soon, until
from tests.unit.gateway.deployment import Services

ARTIST, STRANGER = 1, 77


def asked(deployment: Services) -> int:
    return sum(path.startswith("/v1/many") for path in deployment.at["names"][0].seen)


def test_a_name_that_changes_is_seen_with_the_next_map(deployment: Services, loop: Loop) -> None:
    owners = Owners(deployment.addresses(), deployment.balance(), ttl_s=0.05)
    loop.run(owners.refresh())
    cache = NameCache(owners, deployment.router(owners), most=100)

    def find() -> Names:
        place = NamedObjects("artists", "id", "name", [{"id": ARTIST}, {"id": STRANGER}, {"id": ARTIST}])
        return loop.run(cache.get([place], soon()))

    assert find() == {"artists": {ARTIST: "Prince", STRANGER: None}}
    deployment.name("artists", 1, "The Artist")
    deployment.name("artists", 77, "A Stranger")
    assert find() == {"artists": {ARTIST: "Prince", STRANGER: None}}
    assert asked(deployment) == 1
    loop.run(owners.start())
    until(lambda: find() == {"artists": {ARTIST: "The Artist", STRANGER: "A Stranger"}})
    loop.run(owners.stop())
