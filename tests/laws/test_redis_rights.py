"""Users of Redis with the documented rights, and their authentication."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import redis

from devkit.servers.child_process import LOCALHOST, free_port
from streamstate.errors import Declined
from streamstate.history.backup.loaded import loaded
from streamstate.history.backup.restorer import Restorer
from streamstate.history.backup.snapshots import take
from streamstate.releases.deployments import Deployments, Recorded
from streamstate.state import redis_rights as acl
from streamstate.state.deletion import StateDeleter
from streamstate.state.operations import (
    Between,
    Field,
    Fields,
    IncrementScores,
    Members,
    Merge,
    Newest,
    Read,
    Since,
    Top,
    Value,
)
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client, Login, connect
from streamstate.state.store import Allowance, Commit, OffsetAdvance
from streamstate.verify.redis_state import RedisState
from tests.certificates import Authority
from tests.laws.test_redis_refusals import EACH
from tests.laws.test_redis_servers import use
from tests.redis_servers import answers, node

EVERYTHING = [*EACH.values(), Merge("fields", {}, least={"n": 1}), IncrementScores("scores", {"a": 1, "b": 2})]
READS: list[Read] = [
    Value("text"), Fields("fields"), Field("fields", "n"), Top("scores", 3), Newest("list", 3),
    Members("index", "a", "", 3), Since("log", 0, 3), Between("family:k", 0, 9, 3),
]  # fmt: skip


@dataclass(frozen=True)
class Guarded:
    """A Redis behind TLS, which asks for a certificate, with a client of each user."""

    url: str
    authority: Authority
    login: Login
    admin: Client
    clients: dict[str, Client]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    port, authority = free_port(), Authority(tmp_path / "ca")
    certificate, key = authority.issue("redis", LOCALHOST)
    tls = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(authority.path)]
    server = node(tmp_path / "redis", port, *tls, "--port", "0", "--tls-port", str(port))
    (tmp_path / "password").write_text("word\n")
    proof, url = Login("", None, authority.path, certificate, key), f"rediss://{LOCALHOST}:{port}/0"
    server.start()
    server.wait_until(lambda: answers(url, proof), 10)
    for _ in range(20):
        # Tickets of TLS 1.3 that come by themselves are no answer to anything.
        with connect(url, 5.0, proof) as client:
            client.ping()
    admin, clients = connect(url, 5.0, proof), dict[str, Client]()
    backup = {*acl.BACKUP, *acl.CONNECTION, *acl.CLUSTER}
    users = {
        "service": acl.of_service(), "reader": acl.of_reader(), "operator": acl.of_operators(), "backup": backup,
    }  # fmt: skip
    for user, allowed in users.items():
        keys = ("{*",) if user == "backup" else acl.keys("app")
        for rule in (acl.rule(user, keys, allowed), f"{user} on >word"):
            admin.execute_command(*f"ACL SETUSER {rule}".split())  # type: ignore[no-untyped-call]
        clients[user] = connect(url, 5.0, replace(proof, username=user, password=tmp_path / "password"))
    try:
        yield Guarded(url, authority, proof, admin, clients)
    finally:
        server.kill()


def test_a_user_may_do_what_the_list_of_its_rights_says_and_no_more(guarded: Guarded) -> None:
    clients = guarded.clients
    service, reader = RedisStore(clients["service"], "app"), RedisStore(clients["reader"], "app")
    use(service)
    service.commit(Commit(service.claim(0, "a:1", {}), [OffsetAdvance("topic", 3, 4)], EVERYTHING))
    service.report_placed(0, "topic", "crc32")
    snapshot = reader.read({0: READS})[0]
    assert (len(snapshot.values), snapshot.placed) == (len(READS), {"topic": "crc32"})
    operator, state = RedisStore(clients["operator"], "app"), RedisState(clients["operator"], "app")
    recorded = Recorded("app", {})
    Deployments(clients["service"]).store("app", recorded)
    Deployments(guarded.admin).store("other", recorded)
    assert Deployments(clients["operator"]).all() == {"app": recorded}, "those whose keys the user may read"
    Deployments(clients["operator"]).delete("app")
    Deployments(guarded.admin).delete("other")
    for refused in (
        lambda: RedisStore(clients["service"], "other").claim(0, "a:1", {}),
        lambda: Deployments(clients["service"]).delete("app"),
        lambda: reader.claim(0, "a:1", {}),
        lambda: StateDeleter(clients["service"], "app").holdings(),
        clients["operator"].flushall,
    ):
        with pytest.raises(redis.ResponseError, match=r"permission|can't run"):
            refused()
    operator.skip(0, "topic", 9, "why")
    operator.allow(0, "topic", Allowance(1, "why"))
    assert list(state.keys(0))
    assert state.read(0, ["text", "fields", "scores", "log"]).positions == {"topic": 4}
    StateDeleter(clients["operator"], "app").run([*StateDeleter(clients["operator"], "app").holdings()])
    assert guarded.admin.dbsize() == 0


def test_a_backup_and_a_restore_need_their_documented_rights(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(RedisStore(guarded.clients["service"], "app"))
    seen: list[list[str]] = []
    run = subprocess.run

    def spied(argv: list[str], **options: Any) -> Any:
        seen.append(argv)
        return run(argv, **options)

    monkeypatch.setattr(subprocess, "run", spied)
    login = replace(guarded.login, username="operator", password=tmp_path / "password")
    with pytest.raises(Declined, match="NOPERM"):
        take(guarded.clients["operator"], login, tmp_path, tls=True)
    files = take(guarded.clients["backup"], replace(login, username="backup"), tmp_path, tls=True)
    assert all("word" not in argument for argv in seen for argument in argv if "/" not in argument)
    guarded.clients["backup"].hset("{app:0}", "backup", "1")
    with loaded(files) as states:
        restorer = Restorer(guarded.clients["operator"], "app", states["app"], None)
        restorer.require_readable()
        restorer.run(lambda: None)
    assert RedisStore(guarded.clients["service"], "app").read({0: [Value("k")]})[0].values == ["0"]


def test_who_shows_no_certificate_is_not_answered(guarded: Guarded) -> None:
    with pytest.raises(redis.ConnectionError):
        connect(guarded.url, 5.0, Login(ca=guarded.authority.path)).ping()
    with pytest.raises(redis.ConnectionError, match="certificate"):
        connect(guarded.url, 5.0).ping()
