"""What the topic of deletions says of a partition: requests, receipts that replace them, and those of others."""

from streamstate.erasure.deletions import Bound, DeletionRecord, Deletions, erased

IDS = {"plays": "id"}


def deletion(
    service: str, offset: int, request: int | None = None, user: str = "7", topic_id: str = "id"
) -> DeletionRecord:
    return DeletionRecord(user, service, 3, {"plays": Bound(topic_id, b"key", offset)}, request)


def bounds(deletions: Deletions, service: str, before: int = 2**62, partition: int = 3) -> list[int]:
    asked = deletions.asked(service, partition, IDS, before)
    return [offset for keys in erased(asked, partition).values() for offset in keys.values()]


def known(*records: DeletionRecord) -> Deletions:
    deletions = Deletions()
    for offset, record in enumerate(records):
        deletions.add(offset, record)
    return deletions


def test_a_receipt_counts_instead_of_its_request() -> None:
    deletions = known(deletion("metrics", 10), deletion("metrics", 12, request=0))
    assert bounds(deletions, "metrics") == [12]
    assert deletions.asked("metrics", 3, IDS)[0].request == 0
    assert bounds(deletions, "metrics", before=0) == []


def test_a_request_behind_a_receipt_counts_for_a_state_that_has_applied_it() -> None:
    deletions = known(deletion("metrics", 10), deletion("metrics", 12, request=0), deletion("metrics", 20))
    assert bounds(deletions, "metrics", before=2) == [12]
    assert bounds(deletions, "metrics", before=3) == [20]


def test_a_service_without_an_own_one_keeps_to_those_of_others() -> None:
    deletions = known(deletion("metrics", 10), deletion("names", 14), deletion("names", 15, request=1))
    assert bounds(deletions, "metrics") == [10]
    assert bounds(deletions, "newcomer") == [15]
    assert deletions.for_user("7", "newcomer") == []


def test_offsets_count_in_the_topic_that_they_are_of() -> None:
    deletions = known(deletion("metrics", 10, topic_id="of a topic that is gone"))
    assert bounds(deletions, "metrics") == []
    assert bounds(known(deletion("metrics", 10)), "metrics", partition=2) == []


def test_a_record_is_found_by_user_service_and_partition() -> None:
    assert deletion("metrics", 10).key == b"7\tmetrics\t3"
