"""The record of a service's releases, and the form of their answers."""

from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import msgspec
import pytest
import yaml

from services.clicks.model import APP as CLICKS
from services.profile.settings import HABITS
from streamstate.cli.releases.beside import differences
from streamstate.cli.releases.stage import document as document_of
from streamstate.cli.releases.stage import helm_install, own_settings
from streamstate.cli.services import deployment
from streamstate.deployment.overrides import renamed
from streamstate.errors import Declined, Misconfigured
from streamstate.releases import file
from streamstate.releases.contract import broken
from streamstate.releases.record import (
    Publishing,
    Releases,
    adopted,
    cancelled,
    completed,
    decoded,
    dropped,
    dropping,
    encoded,
    first,
    handed_over,
    handing_over,
    next_release,
    previous_release,
    publishing,
    require_kept,
    staged,
    switched,
)

PLACE, OTHER = ("plays", 0), ("plays", 1)
BOTH = staged(first("metrics"), "metrics-2")


def promoted(record: Releases, release: str, former: int, successor: int) -> Releases:
    """`release` is live, and publishes from these fenced positions on."""
    begun = handing_over(switched(record, release))
    return handed_over(begun, {PLACE: former, OTHER: 7}, {PLACE: successor, OTHER: 7})


def publishers(record: Releases, offsets: range) -> list[str]:
    return [name for offset in offsets for name in record.releases if record.publishes(name, PLACE, offset)]


def test_a_staged_release_publishes_nothing() -> None:
    assert BOTH.live == "metrics"
    assert not BOTH.publishes("metrics-2", PLACE, 10**9)
    assert BOTH.publishes("metrics", PLACE, 0)


def test_a_second_release_is_staged_when_the_first_was_live() -> None:
    for name in ("metrics-2", "metrics-3"):
        with pytest.raises(Declined, match="metrics-2 is staged already; `streamstate wait SERVICE metrics-2` shows"):
            staged(BOTH, name)
    assert staged(promoted(BOTH, "metrics-2", 3, 3), "metrics-3").releases == ("metrics", "metrics-2", "metrics-3")
    assert staged(promoted(BOTH, "metrics-2", 3, 5), "metrics-3").former == "metrics"


def test_each_offset_has_one_publisher_through_a_hand_over() -> None:
    ahead = promoted(BOTH, "metrics-2", 3, 5)
    assert (ahead.former, publishers(ahead, range(8))) == ("metrics", ["metrics"] * 5 + ["metrics-2"] * 3)
    assert (ahead.owes("metrics", {PLACE: 3, OTHER: 7}), ahead.owes("metrics-2", {})) == ({PLACE: 2}, {})
    assert ahead.owes("metrics", {PLACE: 5, OTHER: 9}) == {}
    behind = promoted(BOTH, "metrics-2", 5, 3)
    assert (behind.former, publishers(behind, range(8))) == ("", ["metrics-2"] * 3)


def test_a_release_waits_during_a_hand_over_and_for_the_outputs_before_its_own() -> None:
    begun = handing_over(switched(BOTH, "metrics-2"))
    assert all("handed over to metrics-2" in Publishing(name, begun).waits for name in BOTH.releases)
    assert not any(Publishing(name, cancelled(begun)).waits for name in BOTH.releases)
    ahead = promoted(BOTH, "metrics-2", 3, 5)
    assert "metrics has outputs to publish first" in Publishing("metrics-2", ahead).waits
    assert not Publishing("metrics", ahead).waits
    assert not Publishing("metrics-2", completed(ahead)).waits


def test_the_way_back_is_the_release_before() -> None:
    with pytest.raises(Declined, match="metrics has no release before it"):
        previous_release(BOTH)
    record = promoted(BOTH, "metrics-2", 7, 7)
    assert previous_release(record) == "metrics"
    assert previous_release(promoted(record, "metrics", 9, 9)) == "metrics-2"
    with pytest.raises(Declined, match="metrics-2 has no release before it"):
        previous_release(dropped(dropping(record, "metrics")))


def test_a_release_is_named_where_there_are_several_others() -> None:
    assert next_release(BOTH) == "metrics-2"
    third = staged(promoted(BOTH, "metrics-2", 7, 7), "metrics-3")
    with pytest.raises(Declined, match="beside metrics-2 there are metrics, metrics-3"):
        next_release(third)
    with pytest.raises(Declined, match="beside metrics there are none, until `streamstate stage SERVICE`"):
        next_release(first("metrics"))
    with pytest.raises(Declined, match="there is no release words"):
        switched(BOTH, "words")


def test_only_a_release_that_neither_answers_nor_publishes_is_dropped() -> None:
    live = switched(BOTH, "metrics-2")
    for record, name in ((BOTH, "metrics"), (live, "metrics-2"), (live, "metrics"), (handing_over(live), "metrics-2")):
        with pytest.raises(Declined, match=f"{name} is live: promote another release first"):
            dropping(record, name)
    ahead = promoted(BOTH, "metrics-2", 3, 5)
    with pytest.raises(Declined, match="metrics has outputs to publish"):
        dropping(ahead, "metrics")
    given_up = dropping(ahead, "metrics", without_outputs=True)
    assert (given_up.releases, given_up.former, given_up.dropping) == (("metrics-2",), "", "metrics")
    assert not Publishing("metrics-2", given_up).waits
    assert dropping(given_up, "metrics") == given_up
    with pytest.raises(Declined, match="metrics is being dropped: finish it first"):
        dropping(msgspec.structs.replace(given_up, releases=("metrics-2", "metrics-3")), "metrics-3")


def test_a_record_that_is_made_anew_lets_the_live_release_publish_from_its_state_on() -> None:
    record = adopted("metrics-2", ("metrics-2", "metrics"), {PLACE: 5}, 9)
    assert (record.live, record.releases, record.number) == ("metrics-2", ("metrics-2", "metrics"), 9)
    assert publishers(record, range(3, 7)) == ["metrics-2"] * 2
    # Outputs before are of any release: they are not compared.
    assert Publishing("metrics-2", record).since(PLACE) == 5
    assert not Publishing("metrics-2", record).waits
    assert Publishing("metrics", record).since(PLACE) is None


def test_clients_depend_on_a_release_that_answers_or_has_outputs_to_publish() -> None:
    assert [BOTH.in_use(name) for name in BOTH.releases] == [True, False]
    ahead = promoted(BOTH, "metrics-2", 3, 5)
    assert [ahead.in_use(name) for name in BOTH.releases] == [True, True]
    assert [completed(ahead).in_use(name) for name in BOTH.releases] == [False, True]


def test_a_record_is_stored_as_json_and_one_of_an_earlier_version_is_refused() -> None:
    record = promoted(BOTH, "metrics-2", 3, 5)
    assert decoded(encoded(record)) == record
    assert decoded(None) is None
    earlier = b'{"live": "metrics", "releases": ["metrics"], "turns": [{"release": "metrics"}]}'
    with pytest.raises(Misconfigured, match="earlier version: make it anew by `streamstate adopt SERVICE RELEASE`"):
        decoded(earlier)


def test_a_lost_record_is_refused() -> None:
    require_kept(BOTH, BOTH.number, "metrics")
    for record in (None, BOTH):
        with pytest.raises(Misconfigured, match="the record of the releases of metrics is lost"):
            require_kept(record, BOTH.number + 1, "metrics")


# Who publishes, as a process knows it.


def test_without_a_record_the_first_release_publishes_everything_and_another_refuses() -> None:
    assert publishing(None, "metrics", "metrics").publishes(PLACE, 0)
    for record in (None, first("metrics"), dropped(dropping(BOTH, "metrics-2"))):
        with pytest.raises(Misconfigured, match="run `streamstate stage SERVICE --name metrics-2`"):
            publishing(record, "metrics-2", "metrics")
    assert not publishing(BOTH, "metrics-2", "metrics").publishes(PLACE, 0)
    gone = dropped(dropping(promoted(BOTH, "metrics-2", 5, 5), "metrics"))
    with pytest.raises(Misconfigured, match="metrics is no release of metrics"):
        publishing(gone, "metrics", "metrics")


def test_totals_are_published_by_a_state_with_all_records_before_the_cuts() -> None:
    ahead = promoted(BOTH, "metrics-2", 3, 5)
    record, positions = completed(ahead), {PLACE: 5, OTHER: 11}
    assert Publishing("metrics-2", record).totals(positions)
    assert not Publishing("metrics-2", record).totals({**positions, PLACE: 4})
    assert not Publishing("metrics-2", ahead).totals(positions)
    assert not Publishing("metrics", record).totals(positions)
    assert Publishing("metrics").totals({PLACE: 0})


def test_a_release_shares_outputs_and_dead_letters_with_the_first() -> None:
    other = renamed(CLICKS, "clicks-2", {}, release_of="clicks")
    assert (other.name, other.group, other.release_of) == ("clicks-2", "clicks-2", "clicks")
    assert (other.outputs, other.dead_letters) == (CLICKS.outputs, "clicks-dlq")
    topics = {"clicks-per-region": "totals-eu", "clicks-dlq": "dead-eu"}
    assert renamed(CLICKS, "clicks-eu-2", topics, release_of="clicks-eu").outputs == ("totals-eu", "dead-eu")
    assert CLICKS.release_of == "clicks"


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
    file.change(path, "metrics", "metrics-2", one)
    assert file.read(path) == {"metrics": {"metrics-2": one}}
    file.change(path, "metrics", "metrics", None)
    assert file.dropped(file.read(path)) == {"metrics"}
    assert [*file.beside(file.read(path))] == [("metrics", "metrics-2", one)]
    file.change(path, "metrics", "metrics", one)
    assert file.dropped(file.read(path)) == set()
    file.change(path, "metrics", "metrics-2", None)
    assert file.read(path) == {"metrics": {"metrics": one}}
    assert sorted(each.name for each in path.parent.iterdir()) == [".releases.json.lock", "releases.json"]
    path.write_text("[")
    with pytest.raises(Misconfigured, match="correct RELEASES"):
        file.read(path)


def change(path: Path, names: range) -> None:
    for number in names:
        file.change(path, "metrics", f"metrics-{number}", file.ByHand("127.0.0.1:1", "services.metrics"))


def test_two_processes_that_change_the_file_keep_each_others_changes(tmp_path: Path) -> None:
    path = tmp_path / "releases.json"
    with ProcessPoolExecutor(2) as pool:
        [*pool.map(change, repeat(path), (range(100), range(100, 200)))]
    assert len(file.read(path)["metrics"]) == 200


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
