"""Access to the gateway: every route, with every credential."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest
from structlog.testing import capture_logs
from werkzeug.test import Client

from devkit.servers.child_process import LOCALHOST
from devkit.servers.redis import Redis
from services.gateway.access.guard import CHALLENGE, MOST_WAITING
from services.gateway.settings import AccessSettings
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from streamstate.deployment.connections import HttpSettings
from streamstate.settings import load
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.store import Origin
from streamstate.testing import Driver
from streamstate.web.access import internal
from streamstate.web.server import asgi
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.guard import InternalGuard
from streamstate.web.server.probes import application
from tests.integration.terminal import Example, Terminal, examples
from tests.listening import Listener
from tests.raw import feed_plays
from tests.serving import Loop, sample
from tests.unit.gateway.deployment import PARTITIONS, USER
from tests.unit.gateway.guarding import ADMIN, EXPLORE, MAY, NEEDED, OPEN, READ, TOKEN, Guarded, problem, request
from tests.waiting import until


def test_no_route_is_forgotten(guarded: Guarded) -> None:
    """A route or view that is new needs a line in `NEEDED`."""
    assert set(guarded.paths()) == set(NEEDED)


def test_every_route_is_for_those_who_have_its_scope(guarded: Guarded) -> None:
    for rule, path in guarded.paths().items():
        if NEEDED[rule] == OPEN:
            assert guarded.get(path).status_code == 200
            continue
        for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE", "BREW"):
            response = guarded.client.open(path, method=method)
            assert response.status_code == 401
            assert response.headers["WWW-Authenticate"] == CHALLENGE
        for scope, may in MAY.items():
            headers = {"Authorization": f"Bearer {guarded.keys[scope]}"}
            # A stream has no end, but for a HEAD.
            status = guarded.client.head(path, headers=headers).status_code
            assert (status in (401, 403)) is (NEEDED[rule] not in may), (rule, scope, status)


def test_a_path_that_there_is_not_is_told_to_nobody(guarded: Guarded) -> None:
    for path in ("/nowhere", "/v1/nowhere", "/v1/users/", "//livez", "/livez/", "/v1/users/42/../..", "*"):
        problem(guarded.get(path), 401)
        assert guarded.get(path, guarded.keys[ADMIN]).status_code in (308, 400, 404), path


def streams(guarded: Guarded, *scopes: str) -> list[Listener]:
    """An open stream for the key of each of `scopes`."""
    path = f"/v1/users/{USER}/stream"
    loop, app = guarded.deployment.loop, guarded.app
    listeners = [Listener(loop, app, path, credential=guarded.keys[scope]) for scope in scopes]
    assert all(listener.next().data["eventCount"] == 3 for listener in listeners)
    return listeners


@pytest.mark.parametrize("for_something_else", [False, True])
def test_a_stream_ends_with_the_right_of_its_key_and_others_go_on(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, *, for_something_else: bool
) -> None:
    monkeypatch.setattr(asgi, "RECHECK_S", 0.05)
    revoked, kept = streams(guarded, READ, ADMIN)
    if for_something_else:
        guarded.file.write_text(guarded.file.read_text().replace('["read"]', '["explore"]'))
    else:
        guarded.write(ADMIN)
    until(lambda: revoked.ended)
    guarded.deployment.play([(USER, 1, 2, 3, 9_000)])
    assert kept.next().data["eventCount"] == 4


@pytest.mark.parametrize("user", ["", "anna", "ssk_", "Ä"])
def test_a_browser_sends_a_key_as_the_password_of_any_user(guarded: Guarded, user: str) -> None:
    def status(path: str, key: str) -> int:
        return guarded.client.get(path, auth=(user, key)).status_code

    assert status("/v1/users/42", guarded.keys[READ]) == 200
    assert status("/v1/system", guarded.keys[READ]) == 403
    assert status("/v1/users/42", guarded.keys[READ] + "x") == 401


def test_the_answer_of_a_named_release_is_for_admins(guarded: Guarded) -> None:
    for path in (f"/v1/users/{USER}/metrics", f"/v1/users/{USER}", f"/v1/many?metrics={USER}", "/openapi.json"):
        assert guarded.get(path, guarded.keys[READ], **{"X-Release": "metrics"}).status_code == 403
        assert guarded.get(path, guarded.keys[ADMIN], **{"X-Release": "metrics"}).status_code == 200
    answer = guarded.get(f"/v1/users/{USER}/metrics", guarded.keys[ADMIN], **{"X-Release": "metrics-9"})
    assert (answer.status_code, answer.get_json()["detail"]) == (
        404,
        "no release is called metrics-9; see /v1/system for those that there are",
    )


def test_a_read_key_sees_no_pod(guarded: Guarded) -> None:
    addresses = {served.address for service in guarded.deployment.at.values() for served in service}
    for rule, path in guarded.paths().items():
        if NEEDED[rule] != ADMIN and not rule.endswith("/stream"):
            for scope in (READ, EXPLORE):
                response = guarded.get(path, guarded.keys[scope])
                said = f"{response.headers}{response.get_data(as_text=True)}"
                assert not [address for address in addresses if address in said], path
    admin = guarded.get(f"/v1/users/{USER}/metrics", guarded.keys[ADMIN])
    assert admin.headers["Served-By"] in addresses


def test_an_instance_answers_nobody_but_the_gateway(guarded: Guarded) -> None:
    for service, instances in guarded.deployment.at.items():
        client = Client(instances[0].app)
        rules = {"/processors", "/metrics", "/openapi.json", "/docs", f"/v1/{service}/processors"}
        rules |= {path for path in map(request, NEEDED) if path.startswith("/v1/")}
        for path in rules:
            for headers in ({}, {"Authorization": f"Bearer {guarded.keys[ADMIN]}"}, {internal.HEADER: TOKEN[:-1]}):
                assert client.get(path, headers=headers).status_code == 401
            assert client.get(path, headers={internal.HEADER: TOKEN}).status_code != 401
        assert client.get("/livez").status_code == client.get("/readyz").status_code == 200


def test_the_internal_token_is_changed_while_reads_go_on(guarded: Guarded) -> None:
    other = "another-token-of-32-characters-xx"
    for tokens in (f"{TOKEN}\n{other}", f"{other}\n{TOKEN}", other):
        guarded.tokens.write_text(tokens)
        assert guarded.get(f"/v1/users/{USER}", guarded.keys[READ]).get_json()["warnings"] == []
    client = Client(guarded.deployment.at["metrics"][0].app)
    assert client.get("/processors", headers={internal.HEADER: TOKEN}).status_code == 401


def test_instances_that_refuse_the_token_are_away_and_no_caller_is_told_to_identify_again(guarded: Guarded) -> None:
    read = guarded.keys[READ]
    assert guarded.get(f"/v1/users/{USER}/metrics", read).status_code == 200
    for served in guarded.deployment.at["metrics"]:
        served.app = guarded.deployment.loop.wsgi(_with_another_token(guarded))
    assert problem(guarded.get(f"/v1/users/{USER}/metrics", read), 503)["type"].endswith("no-instance")


def _with_another_token(guarded: Guarded) -> Asgi:
    tokens = guarded.home / "others"
    tokens.write_text("b" * 32)
    routes, telemetry = application("other", "other", ready)
    return Asgi(routes, load(HttpSettings), telemetry, guarding=InternalGuard(internal.InternalTokens(tokens)))


async def ready() -> None:
    """It always is."""


def test_a_broken_file_of_keys_lets_the_same_callers_in_and_is_counted(guarded: Guarded) -> None:
    guarded.file.write_text("{")
    assert guarded.get(f"/v1/users/{USER}/metrics", guarded.keys[READ]).status_code == 200
    text = guarded.get("/metrics", guarded.keys[ADMIN]).get_data(as_text=True)
    assert (sample(text, "streamstate_unreadable_files_total", service="gateway", file="keys") or 0) >= 1


def test_who_did_what_an_admin_may_is_in_the_log_and_no_user_is(guarded: Guarded) -> None:
    with capture_logs() as logs:
        guarded.get(f"/v1/route/metrics/{USER}", guarded.keys[ADMIN])
        guarded.get(f"/v1/route/metrics/{USER}", guarded.keys[READ])
        guarded.get(f"/v1/users/{USER}", guarded.keys[ADMIN])
    lines = [line for line in logs if line["event"] == "audit"]
    assert [(line["caller"], line["route"], line["allowed"]) for line in lines] == [
        ("admin", "/v1/route/<service>/<key>", True),
        ("read", "/v1/route/<service>/<key>", False),
    ]
    assert str(USER) not in str(logs)


@pytest.mark.parametrize("path", [f"/v1/users/{USER}/metrics", f"/v1/users/{USER}", f"/v1/many?metrics={USER}"])
def test_what_only_an_operator_can_mend_only_an_operator_reads(guarded: Guarded, path: str) -> None:
    """The state of metrics is of other folds: the instances name commands that mend it."""
    services = guarded.deployment
    for app in (METRICS, NAMES):
        services.stores[app.name].empty()
        for partition in range(PARTITIONS):
            address = services.at[app.name][0].address
            origins = {topic: Origin(topic, PARTITIONS) for topic in app.topics}
            services.stores[app.name].claim(partition, address, {}, origins, folds=dict.fromkeys(app.topics, "others"))
    told = {scope: guarded.get(path, guarded.keys[scope]).get_data(as_text=True) for scope in (READ, ADMIN)}
    assert "streamstate reset" not in told[READ]
    assert "ask again" in told[READ]
    assert ("streamstate reset" in told[ADMIN]) == ("many" not in path)


@pytest.mark.parametrize("release", ["metrics", "metrics-2", "nothing", ""])
@pytest.mark.parametrize("path", [f"/v1/users/{USER}/metrics", "/v1/many?metrics=1", "/openapi.json", "/nowhere"])
def test_who_may_not_name_a_release_does_not_learn_which_there_are(guarded: Guarded, path: str, release: str) -> None:
    headers = {"X-Release": release}
    for scope in (READ, EXPLORE):
        assert problem(guarded.get(path, guarded.keys[scope], **headers), 403)["detail"].startswith("the header x-rel")
    assert guarded.get(path, guarded.keys[ADMIN], **headers).status_code != 403


def test_the_gateway_needs_a_file_of_somebody(guarded: Guarded) -> None:
    """Without a key the gateway would refuse everybody, most likely by mistake."""
    guarded.deployment.access = load(AccessSettings)
    with pytest.raises(Exception, match="ACCESS=off answers everybody"):
        guarded.deployment.app()


@pytest.mark.parametrize("guarded", [{"streams_share": 0.002}], indirect=True, ids=["two streams"])
def test_a_caller_has_a_share_of_the_streams(guarded: Guarded, loop: Loop) -> None:
    path = f"/v1/users/{USER}/stream"

    def listener(scope: str) -> Listener:
        return Listener(loop, guarded.app, path, credential=guarded.keys[scope])

    mine = [listener(READ), listener(READ)]
    assert [client.next().name for client in mine] == ["profile", "profile"]
    assert problem(guarded.get(path, guarded.keys[READ]), 429)["type"].endswith("too-many-streams-of-caller")
    assert listener(ADMIN).next().name == "profile"
    mine[0].leave()
    assert listener(READ).next().name == "profile"


def test_a_caller_has_a_share_of_the_requests_that_wait(guarded: Guarded) -> None:
    path, far = f"/v1/users/{USER}/metrics", ",".join(f"listening-events:{place}=99" for place in range(PARTITIONS))
    never = {"X-Min-Position": far, "X-Deadline-Ms": "3000"}

    def wait(scope: str) -> int:
        return guarded.get(path, guarded.keys[scope], **never).status_code

    with ThreadPoolExecutor(MOST_WAITING + 2) as pool:
        mine = [pool.submit(wait, READ) for _ in range(MOST_WAITING + 1)]
        assert next(as_completed(mine)).result() == 429
        others = pool.submit(wait, ADMIN).result()
        assert (others, Counter(answer.result() for answer in mine)) == (503, {503: MOST_WAITING, 429: 1})
    assert guarded.get(path, guarded.keys[READ]).status_code == 200


def test_an_event_of_a_stream_costs_as_much_as_an_answer(guarded: Guarded, loop: Loop) -> None:
    client = Listener(loop, guarded.app, f"/v1/users/{USER}/stream", credential=guarded.keys[READ])
    client.next()
    left = int(client.headers["RateLimit"].rpartition("r=")[2].partition(";")[0])
    asked = guarded.get(f"/v1/users/{USER}/metrics", guarded.keys[READ]).headers["RateLimit"]
    # The beginning and the profile beside the read itself.
    assert left - int(asked.rpartition("r=")[2].partition(";")[0]) >= 3


# The commands of docs/security.md: each prints what the page says.

DATABASE = 10
EXAMPLES = examples("docs/security.md")


@pytest.fixture(scope="module")
def terminal(redis_server: Redis) -> Iterator[Terminal]:
    """A shell; the state of metrics exists, and its owner is away."""
    url = f"redis://{LOCALHOST}:{redis_server.port}/{DATABASE}"
    store = RedisStore(connect(url, 10), METRICS.name)
    feed_plays(Driver(METRICS, store), [(1, 1, 2, 3, 1_000)])
    store.claim(0, f"{LOCALHOST}:1", {})
    terminal = Terminal({}, {"STREAMSTATE_KAFKA": f"{LOCALHOST}:1", "STREAMSTATE_REDIS": url})
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.lines[-1]))
def test_each_command_prints_what_the_page_says(terminal: Terminal, example: Example) -> None:
    terminal.follow(example)
