"""Fixtures of a gateway before served instances."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.test import Client

from devkit.servers.child_process import free_port
from services.recommendations.graph.live import warm_up
from streamstate.web.access import internal, watched_file
from tests.serving import Loop, Serve, Served, looping, serving
from tests.unit.gateway.deployment import Services, started
from tests.unit.gateway.guarding import TOKEN, Guarded


@pytest.fixture(scope="session")
def compiled() -> None:
    """No request waits for the compiler."""
    warm_up()


@pytest.fixture
def deployment(serve: Serve, loop: Loop, compiled: None) -> Services:  # noqa: ARG001
    """Metrics and recommendations twice and names once; `USER` has three plays, some of the things have names."""
    return started(Services(serve, loop))


@pytest.fixture(scope="module")
def standing(compiled: None) -> Iterator[Services]:  # noqa: ARG001
    """The deployment, for tests without changes."""
    with looping() as loop, serving(loop) as serve:
        yield started(Services(serve, loop))


@pytest.fixture(scope="module")
def reader(standing: Services) -> Client:
    """A client of a gateway before the standing deployment."""
    return standing.gateway()


@pytest.fixture
def gateway(deployment: Services, serve: Serve) -> Served:
    """A gateway before `deployment`, at an address."""
    return serve(f"127.0.0.1:{free_port()}", deployment.app())


@pytest.fixture
def guarded(
    tmp_path: Path,
    serve: Serve,
    loop: Loop,
    compiled: None,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Guarded:
    """The deployment with access on, and with the further settings of access that are its parameter."""
    monkeypatch.setattr(watched_file, "CHECK_S", 0.0)
    # The maps are asked for with the token, as everything else of instances.
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    loop.tokens = internal.InternalTokens(tokens)
    return Guarded(tmp_path, serve, loop, **getattr(request, "param", {}))
