"""The documents: short where they should be; every link, target, command, option, variable and chart value exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from typer.main import get_group

from devkit import registry
from devkit.docs import command_reference, data_model, profile_reference, python_reference, reference, rights, site
from streamstate.cli.main import app
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.settings import PREFIX
from tests.findings import faults

PAGES = site.pages()
MOST_WORDS, MOST_LINKS = 600, 20
NUMBERS = Path("docs/numbers.md").read_text()
CODE = re.compile(r"`[^`]+`|^    .*|^```sh\n.*?^```$", re.MULTILINE | re.DOTALL)
SOURCES = sorted(Path("libs").rglob("*.py"))
GROUP = get_group(app)
TARGETS = set(re.findall(r"^([a-z-]+):", Path("Makefile").read_text(), re.MULTILINE))
COMMAND = re.compile(r"(?:^|[\s`/])streamstate ([a-z][^`\n#|;&]*)")
HELM = re.compile(r"helm (?:install|upgrade) \S+ charts/(\S+)((?:.|(?<=\\)\n)*)")


def code(page: Path) -> str:
    return "\n".join(CODE.findall(page.read_text()))


def anchors(page: Path) -> set[str]:
    """The anchors of a document's headings, as the forge and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_first_page_is_short() -> None:
    page = Path("README.md").read_text()
    assert (len(page.split()) <= MOST_WORDS, len(site.LINK.findall(page)) <= MOST_LINKS) == (True, True)


def broken(page: Path) -> Iterator[str]:
    for path, anchor in site.LINK.findall(page.read_text()):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor[1:] not in anchors(target)):
            yield f"{path}{anchor}"


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert faults(PAGES, lambda page: [*broken(page)]) == {}


def test_every_target_of_make_exists() -> None:
    assert faults(PAGES, lambda page: {*re.findall(r"\bmake ([a-z][a-z-]*)\b", code(page))} - TARGETS) == {}


def unknown(typed: str) -> Iterator[str]:
    """The words after `streamstate` that the command does not know."""
    command: Any = GROUP
    for word in shlex.split(typed):
        if hasattr(command, "commands"):
            if word not in command.commands:
                yield word
                return
            command = command.commands[word]
        elif word.startswith("-") and word.partition("=")[0] not in {
            "--help",
            *(option for parameter in command.params for option in parameter.opts),
        }:
            yield word


def test_every_command_and_option_exists() -> None:
    def mistyped(page: Path) -> list[str]:
        return [line for line in COMMAND.findall(code(page)) if any(unknown(line.replace("'", "")))]

    assert faults(PAGES, mistyped) == {}


def test_the_page_of_the_command_lists_every_command_at_its_top() -> None:
    top = command_reference.PATH.read_text().partition("\n## ")[0]
    assert set(GROUP.commands) - set(re.findall(r"`([a-z]+)`", top)) == set()


def test_every_command_that_a_message_names_exists() -> None:
    asked = {command for path in SOURCES for command in re.findall(r"`streamstate ([a-z]+)", path.read_text())}
    assert asked - set(GROUP.commands) == set()
    assert asked


def test_every_variable_exists() -> None:
    known = {f"{PREFIX}{field.upper()}" for kind in reference.SETTINGS for field in kind.model_fields}
    assert faults(PAGES, lambda page: {*re.findall(rf"\b{PREFIX}[A-Z_]*[A-Z]\b", page.read_text())} - known) == {}


def test_every_value_of_a_chart_exists() -> None:
    for chart, arguments in HELM.findall("\n".join(map(code, PAGES))):
        values = yaml.safe_load(Path("charts", chart, "values.yaml").read_text())
        for path in re.findall(r"--set '?([A-Za-z.-]+)=", arguments):
            place = values
            # A map that is empty by default takes any names.
            for name in path.split(".") if place else ():
                assert place == {} or name in place, f"{chart}: {path}"
                place = place and place[name]


def test_the_page_of_deletions_names_every_written_topic_with_users() -> None:
    words = "key: value.<member>, path: /v1/users/<key>/p, fields: {<member>: {type: int, member: <member>}}"
    profile = (
        f"{{name: p, topic: t, {words}, measures: {{n: {{count: all}}}}, rules: {{r: {{when: {{n: {{gt: 1}}}}}}}}}}"
    )
    made = profile_app(parse(profile.replace("<member>", "m")))
    named = {"t-by-m-int": "<topic>-by-<member>-<type>", "p-rules": "<profile>-rules"}
    apps = [made, *(service for name in registry.SERVICES if (service := registry.app(name)).user_folds)]
    written = {named.get(topic, topic) for service in apps for topic in service.emits}
    page = Path("docs/erase.md").read_text().partition("## Kafka's copies")[2].partition("## ")[0]
    assert {topic for topic in written if f"`{topic}`" not in page} == set()


def test_the_numbers_are_those_of_the_last_measurement() -> None:
    """The first figure of each measured cost; sizes of records are not measured there."""
    units = "cores at|ms of CPU|bytes a user|bytes a play|events a CPU"
    cells = re.findall(rf"^\| [^|]+ \| ([0-9.,]+) (?:{units})", NUMBERS, re.MULTILINE)
    assert len(cells) == 6
    assert [cell for cell in cells if cell not in Path("docs/bench.md").read_text()] == []


def test_every_document_is_reached_from_the_navigation() -> None:
    reached = set(re.findall(r": (\S+\.md)$", Path("mkdocs.yml").read_text(), re.MULTILINE))
    decisions = {page for page in PAGES if page.parent == Path("docs/decisions") and page.name != "README.md"}
    assert reached == {str(page) for page in PAGES if page not in decisions}


# The pages made from the source are up to date.


@pytest.mark.parametrize(
    "made",
    [reference, command_reference, data_model, profile_reference, python_reference, rights],
    ids=lambda made: made.__name__,
)
def test_a_page_is_what_the_source_says(made: ModuleType) -> None:
    assert made.PATH.read_text() == made.text(), "run make docs"
