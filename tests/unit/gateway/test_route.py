"""The route of a key, explained."""

from confluent_kafka import murmur2
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.route import positive_hash
from streamstate.keys import LONG
from tests.unit.gateway.deployment import PARTITIONS, USER, Services


@given(key=st.binary(max_size=20), count=st.integers(1, 1_000))
def test_the_partition_is_the_remainder_of_the_hash(key: bytes, count: int) -> None:
    assert 0 <= positive_hash(key) < 2**31
    assert positive_hash(key) % count == murmur2(key, count)


def test_a_route_tells_key_bytes_hash_partition_and_owner(deployment: Services) -> None:
    response = deployment.gateway().get(f"/v1/route/metrics/{USER}")
    (step,) = response.get_json()["views"]
    owner = deployment.owner(USER)
    assert response.status_code == 200
    assert step["keyBytes"] == LONG.encode(USER).hex()
    assert step["hash"] % step["partitions"] == step["partition"]
    assert (step["view"], step["topic"], step["key"]) == ("metrics", "listening-events", "long")
    assert (step["owner"], step["partitions"], step["ready"]) == (owner.address, PARTITIONS, True)
    assert step["epoch"] == deployment.stores["metrics"].read({step["partition"]: []})[step["partition"]].epoch


def test_the_lag_is_what_the_state_is_behind_the_topic(deployment: Services) -> None:
    (step,) = deployment.gateway().get(f"/v1/route/metrics/{USER}").get_json()["views"]
    assert step["lag"] == 0
    deployment.topics.written["listening-events", step["partition"]] = 103
    for one in deployment.freshness:
        one.refresh()
    assert deployment.gateway().get(f"/v1/route/metrics/{USER}").get_json()["views"][0]["lag"] == 100


def test_a_demand_reaches_the_state_and_its_position_comes_back(deployment: Services) -> None:
    (step,) = deployment.gateway().get(f"/v1/route/metrics/{USER}").get_json()["views"]
    place = f"listening-events:{step['partition']}"
    fine = deployment.gateway().get(f"/v1/users/{USER}/metrics", headers={"X-Min-Position": f"{place}=3"})
    assert (fine.status_code, fine.headers["Position"]) == (200, f"{place}=3")
    headers = {"X-Min-Position": f"{place}=4", "X-Deadline-Ms": "300"}
    late = deployment.gateway().get(f"/v1/users/{USER}/metrics", headers=headers)
    assert late.status_code == 503
    assert "1 records before" in late.get_json(force=True)["detail"]
