"""An application against its own OpenAPI document: allowed and forbidden requests."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from schemathesis import Case, GenerationMode
from schemathesis.checks import positive_data_acceptance
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema

from streamstate.web.server.openapi import MANY
from tests.serving import Wsgi

EXAMPLES = 6
# 503 and 504 answer a demand that is not met in time. What the document does not name is ignored.
CONFIG = {
    "checks": {
        "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", "503", "504"]},
        # A body with too many keys may also be too large.
        "negative_data_rejection": {"expected-statuses": ["4xx", "5xx"]},
    },
    "generation": {"allow-extra-parameters": False},
}

# Here parameters limit each other, which a document cannot say: one key at least, and so many steps in all.
TOGETHER = (MANY, "/recommendations/", "/similar")

Operation = APIOperation[Any, Any, Any, Any]


def hold(app: Wsgi, described: Wsgi) -> None:
    """Ask `app` everything, well and badly, the same at every run; fails at an answer that its document does not allow.

    Let its deadline be short: what is demanded is not there. `described` is the same with time for the document.
    """
    schema = schemathesis.openapi.from_wsgi("/openapi.json", described, config=SchemathesisConfig.from_dict(CONFIG))
    schema.app = app
    hold_examples(schema.raw_schema)
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        for case in _borders(schema, operation):
            _ask(case)
        for mode in _modes(operation):
            _draw(operation, mode)


def hold_examples(document: Mapping[str, Any]) -> None:
    """Fails at an answer or a problem without an example, or with one that its schema does not allow."""
    components = document["components"]
    responses = [each["responses"] for item in document["paths"].values() for each in item.values()]
    answers = [each.get("200") or each["202"] for each in responses]
    for response in (*answers, *components["responses"].values()):
        for content in response["content"].values():
            examples = [each["value"] for each in content.get("examples", {}).values()] or [content["example"]]
            for example in examples:
                _validate(example, content["schema"], components)
    for header in components["headers"].values():
        if "example" in header:
            _validate(header["example"], header["schema"], components)
    for answer in answers:
        for content_type, content in answer["content"].items():
            if content_type == "text/event-stream":
                data = content["schema"]["properties"]["data"]["contentSchema"]
                _validate(json.loads(content["example"]["data"]), data, components)


def _validate(example: Any, schema: Mapping[str, Any], components: Mapping[str, Any]) -> None:
    # References begin at the root of the document.
    Draft202012Validator({**schema, "components": components}).validate(example)


def _borders(schema: BaseSchema, operation: Operation) -> Iterator[Case[Any]]:
    """Each parameter at its limits and beyond, and methods that there are not."""
    modes, how = list(GenerationMode), schema.config.generation
    yield from schema.iter_coverage_cases(operation, generation_modes=modes, generation_config=how)


def _draw(operation: Operation, mode: GenerationMode) -> None:
    """Parameters at random."""
    alike = settings(derandomize=True, max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    alike(given(case=operation.as_strategy(generation_mode=mode))(_ask))()


def _modes(operation: Operation) -> Iterator[GenerationMode]:
    yield GenerationMode.POSITIVE
    # Any text is a text.
    if any(parameter.definition["schema"] != {"type": "string"} for parameter in operation.iter_parameters()):
        yield GenerationMode.NEGATIVE


def _ask(case: Case[Any]) -> None:
    excluded = [positive_data_acceptance] if any(part in case.path for part in TOGETHER) else []
    case.call_and_validate(excluded_checks=excluded)
