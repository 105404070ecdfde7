"""Files of keys and tokens: contents, and changes under a running process."""

import re
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from devkit.registry import SERVICES, app
from streamstate.cli.main import app as command
from streamstate.deployment.overrides import renamed
from streamstate.errors import Misconfigured
from streamstate.kafka.security import rights as kafka
from streamstate.state import redis_rights as redis
from streamstate.state.operations import Read
from streamstate.web.access import internal, keys, watched_file
from streamstate.web.access.watched_file import WatchedFile
from streamstate.web.client.instances import same_service

KEY = keys.generate()
LINE = f'{{"name":"web","sha256":"{keys.digest(KEY)}","scopes":["read"]}}\n'


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is looked at whenever it is asked for."""
    monkeypatch.setattr(watched_file, "CHECK_S", 0.0)


def test_a_key_that_is_printed_is_found_by_its_line() -> None:
    printed = CliRunner().invoke(command, ["keys", "new", "web", "--scope", "read", "--scope", "explore"]).output
    key, line = (text.partition(":")[2].strip() for text in printed.splitlines())
    found = keys.find(keys.parse(line.encode()), key)
    assert found is not None
    assert (found.name, found.scopes) == ("web", ("read", "explore"))
    assert key not in line
    assert len(key) >= len(keys.PREFIX) + 43


@pytest.mark.parametrize("wrong", [["Web"], ["web", "--scope", "write"], ["web", "--requests-per-s", "0"]], ids=str)
def test_a_key_that_no_file_could_have_is_refused(wrong: list[str]) -> None:
    assert CliRunner().invoke(command, ["keys", "new", *wrong]).exit_code == 2


def test_no_other_key_is_found() -> None:
    known = keys.parse(f"# the website\n\n{LINE}".encode())
    for other in ("", keys.PREFIX, KEY[:-1], KEY + "a", keys.digest(KEY), KEY.upper()):
        assert keys.find(known, other) is None
    assert keys.find(known, KEY) is not None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "# nobody\n",
        "web",
        "{}",
        LINE + LINE,
        LINE.replace("read", "write"),
        LINE.replace("[", "[3,"),
        "\xff",
        LINE[:-3],
    ],
    ids=lambda content: content.replace(keys.digest(KEY), "digest"),
)
def test_a_file_of_keys_that_is_none_is_refused_without_its_content(content: str) -> None:
    with pytest.raises(Misconfigured) as refusal:
        keys.parse(content.encode("latin-1"))
    assert keys.digest(KEY) not in str(refusal.value)


@pytest.mark.parametrize("content", ["", "short", "a" * 201, "a" * 40 + "\n" + "ä" * 40, "a" * 40 + "\nshort"], ids=len)
def test_tokens_that_are_none_are_refused(content: str) -> None:
    with pytest.raises(Misconfigured):
        internal.parse(content.encode())


def test_a_file_is_read_again_and_a_broken_one_keeps_the_last_good_content(tmp_path: Path) -> None:
    failures: list[str] = []
    path = tmp_path / "keys"
    path.write_text(LINE)
    file = WatchedFile(path, keys.parse, failures.append)
    first = file.content
    assert file.content is first
    for broken in ("{", ""):
        path.write_text(broken)
        assert file.content is first
    path.unlink()
    assert file.content is first
    assert failures == ["keys"] * 3
    path.write_text(LINE + LINE.replace(keys.digest(KEY), keys.digest("another")))
    assert len(file.content) == 2
    assert len(failures) == 3


def test_a_mounted_secret_is_read_again_when_its_link_leads_elsewhere(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "old" / "keys").write_text(LINE)
    (tmp_path / "new" / "keys").write_text(LINE.replace("web", "app"))
    data = tmp_path / "data"
    data.symlink_to(tmp_path / "old")
    file = WatchedFile(data / "keys", keys.parse)
    [key] = file.content.values()
    assert key.name == "web"
    data.unlink()
    data.symlink_to(tmp_path / "new")
    [key] = file.content.values()
    assert key.name == "app"


def test_a_file_that_is_not_there_ends_the_process(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="keys cannot be used"):
        WatchedFile(tmp_path / "keys", keys.parse)


@pytest.mark.parametrize(
    ("own", "other", "same"),
    [
        ("127.0.0.1:8101", "127.0.0.1:8102", True),
        ("metrics-0.metrics-pods.eu.svc:8080", "metrics-1.metrics-pods.eu.svc:8080", True),
        ("metrics-0.metrics-pods.eu.svc:8080", "metrics-1.metrics-pods.us.svc:8080", False),
        ("metrics-0.metrics-pods.eu.svc:8080", "metrics-1.metrics-pods.eu.svc:9092", False),
        ("metrics-0.metrics-pods.eu.svc:8080", "evil.example:8080", False),
        ("metrics-0.metrics-pods.eu.svc:8080", "a.evil.metrics-pods.eu.svc:8080", False),
        ("10.0.0.1:8080", "11.0.0.1:8080", False),
        ("localhost:8080", "otherhost:8080", False),
    ],
)
def test_only_instances_of_the_same_service_are_dialled(own: str, other: str, *, same: bool) -> None:
    assert same_service(own, other) is same


# The rights of services: every topic, group, id and command that they use, by the names of their deployment.


@pytest.mark.parametrize("service", SERVICES)
def test_every_topic_of_a_service_is_listed_and_no_other(service: str) -> None:
    of = app(service)
    operations = {right.name: set(right.operations) for right in kafka.of_service(of) if right.kind == "topic"}
    written = {*map(of.output, of.emits), *(totals.topic for totals in of.totals), of.dead_letters}
    assert {topic for topic, may in operations.items() if "Write" in may} == written
    assert {topic for topic, may in operations.items() if "Read" in may} == {*of.topics, of.dead_letters}
    assert all("Describe" in may for may in operations.values())


def test_a_deployment_has_its_own_names() -> None:
    other = renamed(app("clicks"), "eu", {"user-clicks": "clicks-eu", "clicks-per-region": "totals-eu"}, "team.eu")
    names = {(right.kind, right.name) for right in (*kafka.of_service(other), *kafka.of_operators(other))}
    assert names == {
        *(("topic", name) for name in ("clicks-eu", "user-regions", "totals-eu", "eu-dlq")),
        *(("group", name) for name in ("team.eu", "team.eu-totals", "streamstate-reading")),
        *(("transactional-id", name) for name in ("team.eu-totals", "team.eu-replay")),
    }


def test_every_command_of_a_script_is_listed() -> None:
    """By a look that is less exact: what is in capitals and quotes, and called by some name."""
    for script in (resources.files("streamstate.state") / "lua").iterdir():
        if script.name != "look.lua":
            called = set(re.findall(r"call[a-z_]*\((?:stored\(topic\) and )?'([A-Z]+)'", script.read_text()))
            allowed = redis.of_operators() if script.name == "replace.lua" else redis.of_service()
            assert {name.lower() for name in called} <= allowed
    assert {type(read) for read in redis.READS} == {*get_args(Read)}
    assert "flushall" not in redis.of_operators()
    assert redis.of_reader() < redis.of_service() < redis.of_operators()
    assert not {"set", "hset", "zadd", "del", "script|load"} & redis.of_reader()


def test_a_release_reads_the_record_of_the_first() -> None:
    environment = {"STREAMSTATE_NAME": "metrics-2", "STREAMSTATE_RELEASE_OF": "metrics"}
    said = CliRunner().invoke(command, ["acl", "redis", "metrics"], env=environment).stdout
    assert " ~{metrics-2:* ~streamstate:deployments ~{metrics:live} +" in said
    assert "~{metrics:live}" not in CliRunner().invoke(command, ["acl", "redis", "metrics"]).stdout


def test_the_command_prints_what_grants_them() -> None:
    """As a shell and Redis take it."""
    environment = {"STREAMSTATE_KAFKA": "kafka:9092", "STREAMSTATE_NAME": "metrics-eu"}
    said = CliRunner().invoke(command, ["acl", "kafka", "metrics", "--user", "CN=metrics"], env=environment).stdout
    assert "--topic 'user-deletions'" in said.splitlines()[0]
    assert said.splitlines()[1] == (
        'kafka-acls.sh --bootstrap-server kafka:9092 --command-config "$ADMIN" --add --force --allow-principal '
        "'User:CN=metrics' --operation Read --operation Describe --operation DescribeConfigs --topic 'listening-events'"
    )
    assert "--group 'metrics-eu'" in said
    said = CliRunner().invoke(command, ["acl", "redis", "metrics", "--operator"], env=environment).stdout
    assert said.startswith(
        "ACL SETUSER metrics-eu resetkeys resetchannels nocommands ~{metrics-eu:* ~streamstate:deployments +"
    )
    assert "+unlink" in said.split()
