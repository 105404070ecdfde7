"""The record of a service's releases, and the form of their answers."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from services.clicks.model import APP as CLICKS
from services.profile.settings import HABITS
from streamstate.cli.releases.beside import differences
from streamstate.cli.releases.drop import Dropping
from streamstate.cli.releases.stage import document as document_of
from streamstate.cli.releases.stage import helm_install, own_settings
from streamstate.cli.services import deployment
from streamstate.deployment.overrides import renamed
from streamstate.errors import Declined, Misconfigured
from streamstate.releases import file
from streamstate.releases.contract import broken
from streamstate.releases.record import (
    AT_START,
    KEPT_TURNS,
    Place,
    Releases,
    Voice,
    behind_turn,
    decoded,
    dropped,
    encoded,
    first,
    handed_over,
    next_release,
    next_write,
    previous_release,
    staged,
    switched,
    turned,
    voice,
)

PLACE, OTHER = ("plays", 0), ("plays", 1)
BOTH = staged(first("metrics"), "metrics-2")


def promoted(record: Releases, release: str, cut: int, reached: Mapping[Place, int] = AT_START) -> Releases:
    while (after := next_write(record, release, {PLACE: cut, OTHER: cut}, reached)) is not None:
        record = after
    return record


def publishers(record: Releases, offsets: range) -> list[str]:
    return [name for offset in offsets for name in record.releases if record.publishes(name, PLACE, offset)]


def test_a_staged_release_publishes_nothing() -> None:
    assert BOTH.live == "metrics"
    assert not BOTH.publishes("metrics-2", PLACE, 10**9)
    assert BOTH.publishes("metrics", PLACE, 0)
    with pytest.raises(Declined, match="metrics-2 is staged already"):
        staged(BOTH, "metrics-2")


def test_each_offset_has_one_publisher_through_promotions_and_returns() -> None:
    record = promoted(promoted(promoted(BOTH, "metrics-2", 3), "metrics", 5), "metrics-2", 8)
    assert publishers(record, range(10)) == [
        *["metrics"] * 3, *["metrics-2"] * 2, *["metrics"] * 3, *["metrics-2"] * 2,
    ]  # fmt: skip
    assert record.spans("metrics", PLACE, 10) == [(0, 3), (5, 8)]
    assert record.spans("metrics-2", PLACE, 10) == [(3, 5), (8, 10)]
    assert record.spans("metrics-2", PLACE, 4) == [(3, 4)]


def test_a_turn_never_begins_before_the_turn_before() -> None:
    record = promoted(promoted(BOTH, "metrics-2", 100), "metrics", 50)
    assert record.turns[-1].cut(PLACE) == 100
    assert publishers(record, range(98, 102)) == ["metrics"] * 4


def test_turns_are_forgotten_behind_all_releases_and_leave_no_gap() -> None:
    record = BOTH
    for number in range(2 * KEPT_TURNS):
        reached = {PLACE: number, OTHER: number}
        record = promoted(record, ("metrics-2", "metrics")[number % 2], number, reached)
    assert len(record.turns) == KEPT_TURNS
    assert len(publishers(record, range(30))) == 30


def test_a_turn_is_kept_while_a_release_is_before_it() -> None:
    record, late = BOTH, 3
    for number in range(2 * KEPT_TURNS):
        record = promoted(record, ("metrics-2", "metrics")[number % 2], number, {PLACE: late, OTHER: 99})
    assert publishers(record, range(late, 12)) == ["metrics", "metrics-2"] * 4 + ["metrics"]


def test_a_promotion_is_two_writes_and_continues_after_the_first() -> None:
    half = next_write(BOTH, "metrics-2", {PLACE: 7})
    assert half
    assert (half.live, half.publisher, behind_turn(half)) == ("metrics", "metrics-2", True)
    assert (next_release(half), previous_release(half)) == ("metrics-2", "metrics")
    whole = next_write(half, "metrics-2", {PLACE: 99})
    assert whole
    assert (whole.live, whole.turns) == ("metrics-2", half.turns)
    assert next_write(whole, "metrics-2", {}) is None
    assert whole.number == BOTH.number + 2


def test_the_way_back_is_the_release_before() -> None:
    with pytest.raises(Declined, match="metrics has no release before it"):
        previous_release(BOTH)
    record = promoted(BOTH, "metrics-2", 7)
    assert previous_release(record) == "metrics"
    third = promoted(staged(record, "metrics-3"), "metrics-3", 9)
    assert previous_release(third) == "metrics-2"
    assert previous_release(dropped(third, "metrics-2")) == "metrics"


def test_a_release_is_named_where_there_are_several_others() -> None:
    assert next_release(BOTH) == "metrics-2"
    with pytest.raises(Declined, match="beside metrics there are metrics-2, metrics-3"):
        next_release(staged(BOTH, "metrics-3"))
    with pytest.raises(Declined, match="beside metrics there are none, until `streamstate stage SERVICE`"):
        next_release(first("metrics"))
    with pytest.raises(Declined, match="there is no release words"):
        next_write(BOTH, "words", {})


def test_only_a_release_that_neither_answers_nor_publishes_is_dropped() -> None:
    half = turned(BOTH, "metrics-2", {})
    for record, name in ((BOTH, "metrics"), (half, "metrics-2"), (half, "metrics")):
        with pytest.raises(Declined, match=f"{name} is live: promote another release first"):
            dropped(record, name)
    assert dropped(switched(half, "metrics-2"), "metrics").releases == ("metrics-2",)


def test_a_later_release_of_a_dropped_name_publishes_nothing_again() -> None:
    record = dropped(promoted(BOTH, "metrics-2", 5), "metrics")
    again = staged(record, "metrics")
    assert not any(again.publishes("metrics", PLACE, offset) for offset in range(10))
    assert not record.owes("metrics", {PLACE: 5})


def test_a_release_owes_the_offsets_up_to_the_next_turn() -> None:
    record = promoted(BOTH, "metrics-2", 10)
    assert record.owes("metrics", {PLACE: 4, OTHER: 12}) == {PLACE: 6}
    assert record.owes("metrics-2", {PLACE: 4}) == {}
    paid = handed_over(record, {PLACE: 4, OTHER: 12})
    assert paid.owes("metrics", {PLACE: 4}) == {}
    assert publishers(paid, range(3, 5)) == ["metrics", "metrics-2"]
    assert paid.turns[-1].cut(OTHER) == 10


def test_a_release_that_was_promoted_again_before_its_cut_owes_nothing_behind_the_end() -> None:
    """On a quiet topic, all three turns have one cut."""
    record = promoted(promoted(promoted(BOTH, "metrics-2", 10), "metrics", 10), "metrics-2", 10)
    assert record.owes("metrics", {PLACE: 4}) == {PLACE: 6}
    paid = handed_over(record, {PLACE: 4})
    assert paid.owes("metrics", {PLACE: 4}) == {}
    assert publishers(paid, range(3, 12)) == ["metrics", *["metrics-2"] * 8]


def test_clients_depend_on_a_release_that_answers_or_has_outputs_to_publish() -> None:
    assert BOTH.in_use("metrics", {PLACE: 0})
    assert not BOTH.in_use("metrics-2", {PLACE: 0})
    record = promoted(BOTH, "metrics-2", 10)
    assert record.in_use("metrics-2", {PLACE: 4})
    assert record.in_use("metrics", {PLACE: 9})
    assert not record.in_use("metrics", {PLACE: 10})


def test_a_record_is_stored_as_json() -> None:
    record = promoted(BOTH, "metrics-2", 7)
    assert decoded(encoded(record)) == record
    assert decoded(None) is None


# Who publishes, as a process knows it.


def test_without_a_record_the_first_release_publishes_everything_and_another_refuses() -> None:
    assert voice(None, "metrics", "metrics").publishes(PLACE, 0)
    with pytest.raises(Misconfigured, match="run `streamstate stage SERVICE --name metrics-2`"):
        voice(None, "metrics-2", "metrics")
    with pytest.raises(Misconfigured):
        voice(first("metrics"), "metrics-2", "metrics")
    assert not voice(BOTH, "metrics-2", "metrics").publishes(PLACE, 0)
    # A dropped release keeps the offsets of its turn.
    gone = dropped(promoted(BOTH, "metrics-2", 5), "metrics")
    assert voice(gone, "metrics", "metrics").record == gone


def test_totals_are_published_in_the_last_turn_by_a_state_with_all_records_before_it() -> None:
    record = promoted(BOTH, "metrics-2", 10)
    old, new = Voice("metrics", record), Voice("metrics-2", record)
    assert not old.totals({PLACE: 4}, lambda: {PLACE: 4})
    assert new.totals({PLACE: 10, OTHER: 11}, lambda: pytest.fail("the ends are not needed"))
    assert new.totals({PLACE: 4, OTHER: 11}, lambda: {PLACE: 4, OTHER: 99})
    assert not new.totals({PLACE: 4, OTHER: 11}, lambda: {PLACE: 5, OTHER: 99})
    assert Voice("metrics").totals({PLACE: 0}, dict)


def test_a_release_shares_outputs_and_dead_letters_with_the_first() -> None:
    other = renamed(CLICKS, "clicks-2", {}, release_of="clicks")
    assert (other.name, other.group, other.release_of) == ("clicks-2", "clicks-2", "clicks")
    assert (other.outputs, other.dead_letters) == (CLICKS.outputs, "clicks-dlq")
    topics = {"clicks-per-region": "totals-eu", "clicks-dlq": "dead-eu"}
    assert renamed(CLICKS, "clicks-eu-2", topics, release_of="clicks-eu").outputs == ("totals-eu", "dead-eu")
    assert CLICKS.release_of == "clicks"


@pytest.mark.parametrize("come", [0, 1])
def test_a_turn_ends_before_its_cut_where_no_record_comes(come: int) -> None:
    """The next release may have folded a record that comes, at 4, before it knew of its turn."""
    before = promoted(BOTH, "metrics-2", 10)
    stored = [before]

    def replace(old: Releases, new: Releases) -> None:
        assert stored[-1] == old
        stored.append(new)

    def high_watermarks(_places: object) -> dict[Place, int]:
        return {PLACE: 4 + come, OTHER: 7}

    topics = SimpleNamespace(high_watermarks=high_watermarks)
    of: Any = SimpleNamespace(topics=topics, pointer=SimpleNamespace(replace=replace))
    after = Dropping(of, "metrics").handed_over(before, {PLACE: 4, OTHER: 7})
    assert after == stored[-1]
    assert after.turns[-1].cuts == {PLACE[0]: {0: 10 if come else 4, 1: 7}}
    assert [one.number for one in stored] == [*range(before.number, after.number + 1)]
    assert after.owes("metrics", {PLACE: 4, OTHER: 7}) == ({PLACE: 6} if come else {})


def test_a_release_on_kubernetes_has_a_group_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of the first release are those of the second, unless others are set."""
    monkeypatch.setenv("STREAMSTATE_GROUP", "profiles")
    of = deployment("metrics")
    command = helm_install(of, "metrics-2", own_settings(of, "metrics-2", {"GRACE_MS": "1,000"}))
    assert command == (
        "helm get values metrics -o yaml | helm install metrics-2 charts/metrics -f - "
        "--set-string settings.RELEASE_OF=metrics --set-string settings.GROUP= "
        "--set-string 'settings.GRACE_MS=1\\,000'"
    )
    monkeypatch.delenv("STREAMSTATE_GROUP")
    assert "GROUP" not in own_settings(deployment("metrics"), "metrics-2", {})


# The file of releases.


def test_the_file_is_written_as_a_whole_and_an_unreadable_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some" / "releases.json"
    assert file.read(path) == {}
    one = file.ByHand("127.0.0.1:8102", "services.metrics", {"NAME": "metrics-2"})
    file.write(path, file.with_release({}, "metrics", "metrics-2", one))
    assert file.read(path) == {"metrics": {"metrics-2": one}}
    assert [each.name for each in path.parent.iterdir()] == ["releases.json"]
    file.write(path, file.with_release(file.read(path), "metrics", "metrics-2", None))
    assert file.read(path) == {"metrics": {}}
    file.write(path, file.with_release({"metrics": {"metrics-2": one}}, "metrics", "metrics", None))
    assert file.dropped(file.read(path)) == {"metrics"}
    assert [*file.beside(file.read(path))] == [("metrics", "metrics-2", one)]
    again = file.with_release(file.read(path), "metrics", "metrics", one)
    assert file.dropped(again) == set()
    path.write_text("[")
    with pytest.raises(Misconfigured, match="correct RELEASES"):
        file.read(path)


# The form of answers.


def document(members: dict[str, str], **parameters: bool) -> dict[str, object]:
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in members.items()}}
    given = [{"in": "query", "name": name, "required": required} for name, required in parameters.items()]
    answer = {"200": {"content": {"application/json": {"schema": schema}}}}
    path = {"get": {"parameters": given, "responses": answer}}
    return {"paths": {"/v1/plays": path}, "components": {"schemas": {}}}


def test_a_lost_member_another_type_and_a_required_parameter_break_clients() -> None:
    before = document({"count": "integer", "name": "string"}, limit=False)
    assert broken(before, document({"count": "integer", "name": "string", "more": "string"}, limit=False)) == []
    assert broken(before, document({"count": "integer"}, limit=False)) == ["GET /v1/plays 200 .name string: is gone"]
    assert broken(before, document({"count": "number", "name": "string"}, limit=False)) == [
        "GET /v1/plays 200 .count integer: is gone"
    ]
    assert broken(before, document({"count": "integer", "name": "string"}, limit=False, user=True)) == [
        "GET /v1/plays user: is required"
    ]
    assert broken(before, document({"count": "integer", "name": "string"})) == ["GET /v1/plays query limit: is gone"]


def test_the_form_of_answers_by_other_settings_is_known_before_the_release_runs(tmp_path: Path) -> None:
    of, declared = deployment("profile"), yaml.safe_load(HABITS.read_text())
    changed = tmp_path / "habits.yaml"
    for measure in [*declared["measures"]][:2]:
        further = {**declared, "measures": {**declared["measures"], "further": {"count": "all"}}}
        changed.write_text(yaml.safe_dump(further))
        before = document_of(of, {})
        assert differences(before, document_of(of, {"PROFILE": str(changed)})) == []
        fewer = {name: each for name, each in declared["measures"].items() if name != measure}
        changed.write_text(yaml.safe_dump({**declared, "measures": fewer}))
        lost = differences(before, document_of(of, {"PROFILE": str(changed)}))
        assert any(f".{measure} " in line and line.endswith("is gone") for line in lost), lost
