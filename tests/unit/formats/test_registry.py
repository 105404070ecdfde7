"""Answers of a schema registry, and their effects."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from devkit.child_process import free_port
from streamstate.errors import Misconfigured, RegistryUnavailable, UnknownSchema
from streamstate.formats.registered.registry import Registry, Schema
from tests.serving import Served

TEXT = '{"type": "record", "name": "Play", "fields": [{"name": "place", "type": "Place"}]}'
NAMED = '{"type": "record", "name": "Place", "fields": []}'
WRITTEN = Schema("AVRO", NAMED)
REFERENCE = {"name": "Place", "subject": "places", "version": 3}


class FakeRegistry:
    """Answers by method and path with its query; 404 with the code `missing` for all others."""

    def __init__(self) -> None:
        self.missing = 40403
        self.answers: dict[str, tuple[int, Any]] = {}
        self.served = Served(f"127.0.0.1:{free_port()}", self._answer)
        self.registry = Registry(f"http://{self.served.address}")
        self.asked: list[str] = []

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        query = environ["QUERY_STRING"]
        asked = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}" + (f"?{query}" if query else "")
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        self.asked.append(asked)
        status, body = self.answers.get(asked, (404, {"error_code": self.missing, "message": "not here"}))
        start_response(f"{status} -", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.served.stop()


def test_a_reference_that_was_deleted_softly_is_read(fake: FakeRegistry) -> None:
    fake.answers = {
        "GET /schemas/ids/7": (200, {"schema": TEXT, "references": [REFERENCE]}),
        "GET /subjects/places/versions/3?deleted=true": (
            200,
            {"subject": "places", "version": 3, "id": 5, "schema": NAMED},
        ),
    }
    assert fake.registry.schema(7) == Schema("AVRO", TEXT, {"Place": NAMED})


@pytest.mark.parametrize("code", [40401, 40402, 40403, 404, 40499])
def test_what_the_registry_does_not_have_is_unknown_whatever_its_code(fake: FakeRegistry, code: int) -> None:
    fake.missing = code
    with pytest.raises(UnknownSchema, match="not here"):
        fake.registry.schema(7)
    fake.answers = {"GET /schemas/ids/8": (200, {"schema": TEXT, "references": [REFERENCE]})}
    with pytest.raises(UnknownSchema, match="not here"):
        fake.registry.schema(8)


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_any_other_refusal_waits_and_says_what_was_answered(fake: FakeRegistry, status: int) -> None:
    fake.answers = {"GET /schemas/ids/7": (status, {"error_code": status * 100, "message": "ask the owner"})}
    with pytest.raises(RegistryUnavailable, match=f"answers {status}: ask the owner; .*REGISTRY"):
        fake.registry.schema(7)


LOOK_UP, REGISTER = (
    "POST /subjects/out-value?normalize=False&deleted=False",
    "POST /subjects/out-value/versions?normalize=False",
)


def test_a_schema_that_is_there_needs_no_right_to_register_it(fake: FakeRegistry) -> None:
    found = {"subject": "out-value", "version": 1, "id": 5, "schema": NAMED}
    fake.answers = {LOOK_UP: (200, found), REGISTER: (403, {"error_code": 40301, "message": "no"})}
    assert fake.registry.register("out-value", WRITTEN) == 5


@pytest.mark.parametrize("code", [40401, 40403])
def test_a_schema_that_is_new_is_registered(fake: FakeRegistry, code: int) -> None:
    fake.missing, fake.answers = code, {REGISTER: (200, {"id": 6})}
    assert fake.registry.register("out-value", WRITTEN) == 6


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_register_is_told_what_to_register(fake: FakeRegistry, status: int) -> None:
    fake.answers = {REGISTER: (status, {"error_code": status * 100, "message": "no"})}
    with pytest.raises(Misconfigured, match=r"may not register.*out-value.*AVRO") as raised:
        fake.registry.register("out-value", WRITTEN)
    assert NAMED in str(raised.value)
