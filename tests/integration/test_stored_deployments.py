"""Commands that know the servers alone, on streams of a profile and of a staged release whose files are gone."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from devkit.cluster.local_cluster import variables
from devkit.servers.child_process import free_port
from devkit.servers.redis import Redis
from streamstate.cli.main import app
from streamstate.releases.pointer import Pointer
from streamstate.releases.record import first, staged, switched
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from tests.integration.releases import Releases
from tests.waiting import until

FIRST, SECOND = "found", "found-2"
EVENTS = 50
YAML = """
name: found
topic: found-events
key: text
path: /v1/found/<key>
fields: {n: int}
measures:
  events: {count: all}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    server = Redis(tmp_path / "redis", free_port())
    server.start()
    yield server
    server.stop()


def run(releases: Releases, server: Redis, *arguments: str, status: int = 0) -> Any:
    """The JSON of a command."""
    environment = variables({"KAFKA": releases.cluster.kafka.bootstrap, "REDIS": server.url})
    done = CliRunner().invoke(app, [*arguments, "--json"], env=environment)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_commands_find_each_profile_and_release_without_its_variables(
    releases: Releases, server: Redis, tmp_path: Path
) -> None:
    (tmp_path / "one.yaml").write_text(YAML)
    (tmp_path / "two.yaml").write_text(f"{YAML}  sums: {{total: n}}\n")
    releases.create("found-events", "found-dlq")
    for number in range(EVENTS):
        releases.out.produce("found-events", b'{"n": 1}' if number else b"broken", b"key-%d" % (number % 5))
    releases.out.flush()
    client = connect(server.url, 5.0)
    Pointer(client, FIRST).replace(None, staged(first(FIRST), SECOND))
    own = {FIRST: {"PROFILE": "one.yaml"}, SECOND: {"PROFILE": "two.yaml", "RELEASE_OF": FIRST}}
    with ExitStack() as streams:
        for name, settings in own.items():
            given = {**settings, "PROFILE": str(tmp_path / settings["PROFILE"]), "REDIS": server.url}
            streams.enter_context(releases.make("services.profile", name, {}, **given))
        until(lambda: all(position(server, name) == EVENTS for name in own), "both releases")
        for path in tmp_path.glob("*.yaml"):
            path.unlink()
        assert [of["service"] for of in run(releases, server, "status")] == [*own]
        assert [(of["service"], of["differences"]) for of in run(releases, server, "verify")] == [(n, []) for n in own]
        assert run(releases, server, "dlq", "list", FIRST)["letters"] == 1
        assert run(releases, server, "reset", SECOND, "--dry-run")["service"] == SECOND
    staged_only = Pointer(client, FIRST).read()
    assert staged_only
    Pointer(client, FIRST).replace(staged_only, promoted := switched(staged_only, SECOND))
    folder = run(releases, server, "backup", str(tmp_path / "backups"))["folder"]
    client.flushdb()
    restored = run(releases, server, "restore", folder, "--yes")
    assert [of["service"] for of in restored] == [*own]
    assert all(position(server, name) == EVENTS for name in own)
    assert Pointer(client, FIRST).read() == promoted
    assert [of["service"] for of in run(releases, server, "status", status=1)] == [*own]


def position(server: Redis, name: str) -> int:
    snapshots = RedisStore(connect(server.url, 5.0), name).read(dict.fromkeys(range(4), ()))
    return sum(snapshot.positions.get("found-events", 0) for snapshot in snapshots.values())
