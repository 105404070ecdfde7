"""Records a second by topic, from the ends in the maps of services."""

from services.gateway.topic_rates import Topic, TopicRates
from streamstate.web.partition_map import Partition, Processors


def processors(*ends: dict[str, int]) -> Processors:
    """The map of a service with these ends by partition."""
    partitions = [Partition(n, None, 0, ready=True, positions={}, ends=of) for n, of in enumerate(ends)]
    return Processors("a", {}, [], partitions, [])


def test_a_rate_is_of_the_last_ten_seconds_whatever_service_reads_the_topic() -> None:
    rates = TopicRates()
    first = [processors({"plays": 100}, {"plays": 50}), processors({"plays": 90, "names": 7})]
    assert rates.read(first, 100.0) == [Topic("names", 7, 0.0), Topic("plays", 150, 0.0)]
    later = [processors({"plays": 120}, {"plays": 60}), processors({"plays": 140, "names": 7})]
    assert rates.read(later, 104.0) == [Topic("plays", 200, 12.5), Topic("names", 7, 0.0)]
    assert rates.read(later, 112.0) == [Topic("names", 7, 0.0), Topic("plays", 200, 0.0)]


def test_a_new_partition_and_a_recreated_topic_have_no_rate_yet() -> None:
    rates = TopicRates()
    rates.read([processors({"plays": 1_000})], 1.0)
    assert rates.read([processors({"plays": 10}, {"plays": 5_000})], 2.0) == [Topic("plays", 5_010, 0.0)]
