"""The documents: short where they should be, every link leads somewhere, every target and command exists."""

import re
from pathlib import Path

import pytest
from typer.main import get_group

from streamstate.cli.main import app

PAGES = [
    Path("README.md"),
    Path("SECURITY.md"),
    Path("charts/README.md"),
    *sorted(Path("docs").rglob("*.md")),
    *sorted(Path("services").glob("*/README.md")),
]
MOST_WORDS = 900
CODE = re.compile(r"`[^`]+`|^    .*", re.MULTILINE)
SOURCES = sorted(Path("libs").rglob("*.py"))
COMMANDS = set(get_group(app).commands)
TARGETS = set(re.findall(r"^([a-z-]+):", Path("Makefile").read_text(), re.MULTILINE))


def test_the_first_page_is_short() -> None:
    assert len(Path("README.md").read_text().split()) <= MOST_WORDS


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    files = [link for link in links if link and "://" not in link]
    assert [link for link in files if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_target_of_make_exists(page: Path) -> None:
    asked = re.findall(r"\bmake ([a-z][a-z-]*)\b", " ".join(CODE.findall(page.read_text())))
    assert set(asked) - TARGETS == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_of_operators_exists(page: Path) -> None:
    asked = re.findall(r"(?:^|[\s`/])streamstate ([a-z]+)", " ".join(CODE.findall(page.read_text())))
    assert set(asked) - COMMANDS == set()


def test_every_setting_of_access_exists() -> None:
    settings = set(re.findall(r"^\| `(STREAMSTATE_[A-Z_]+)`", Path("docs/reference.md").read_text(), re.MULTILINE))
    named = set(re.findall(r"STREAMSTATE_[A-Z_]+", Path("docs/security.md").read_text()))
    assert named <= settings
    assert len(named) > 10


def test_every_command_that_a_message_names_exists() -> None:
    asked = {command for path in SOURCES for command in re.findall(r"`streamstate ([a-z]+)", path.read_text())}
    assert asked - COMMANDS == set()
    assert asked
