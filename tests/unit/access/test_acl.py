"""The rights of services: every topic, group, id and command that they use, by the names of their deployment."""

import re
from importlib import resources
from typing import get_args

import pytest
from typer.testing import CliRunner

from devkit.registry import SERVICES, app
from streamstate.cli.main import app as command
from streamstate.deployment.overrides import renamed
from streamstate.kafka import rights as kafka
from streamstate.state import redis_rights as redis
from streamstate.state.operations import Read


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
    assert " ~{metrics-2:* ~{metrics:live} +" in said
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
    assert said.startswith("ACL SETUSER metrics-eu resetkeys resetchannels nocommands ~{metrics-eu:* +")
    assert "+unlink" in said.split()
