"""The Python of docs/add-a-service.md: it runs as it stands there, and its services are as small as it says."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from werkzeug.test import Client

from streamstate.app import App
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore, Reader
from streamstate.state.store import Origin
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from tests.serving import FixedTopics, Loop

GUIDE = Path("docs/add-a-service.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
FILES = {found[1]: block for block in BLOCKS if (found := re.match(r"# (services/\S+\.py)\n", block))}
MODELS = [path for path in FILES if path.endswith("/model.py")]
TRIALS = [block for block in BLOCKS if block not in FILES.values()]
MOST_LINES = 60
# Ruff sees no folder of theirs from which to tell that they are ours.
CONFIG = ("--config", 'lint.isort.known-first-party=["services", "streamstate"]')


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The files of the guide as modules that can be imported."""
    made: dict[str, ModuleType] = {}
    for path, text in FILES.items():
        name = path.removesuffix(".py").replace("/", ".")
        package = name.rpartition(".")[0]
        for one in (package, name):
            monkeypatch.setitem(sys.modules, one, made.setdefault(one, ModuleType(one)))
        exec(compile(text, path, "exec"), made[name].__dict__)
    return made


def test_the_guide_has_all_that_is_tested() -> None:
    assert len(MODELS) == len(TRIALS) == 3
    assert len(BLOCKS) == len(FILES) + len(TRIALS)


@pytest.mark.parametrize("path", MODELS)
def test_a_model_is_short(path: str) -> None:
    assert len(FILES[path].splitlines()) < MOST_LINES


@pytest.mark.parametrize("number", range(len(TRIALS)))
def test_a_trial_does_what_it_says(number: int) -> None:
    exec(compile(TRIALS[number], f"trial {number}", "exec"), {})


@pytest.mark.parametrize("path", FILES)
def test_the_code_is_as_clean_as_ours(path: str) -> None:
    for command in (["check"], ["format", "--check"]):
        argv = [sys.executable, "-m", "ruff", *command, *CONFIG, "--stdin-filename", path, "-"]
        found = subprocess.run(argv, check=False, input=FILES[path], capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("path", MODELS)
def test_the_api_of_a_model_answers(path: str, modules: dict[str, ModuleType], loop: Loop) -> None:
    app: App = modules[path.removesuffix(".py").replace("/", ".")].APP
    store, topics = MemoryStore(), FixedTopics(dict.fromkeys(app.topics, 2))
    settings = load(ApiSettings)
    for partition in range(2):
        store.claim(partition, settings.advertise, {}, {topic: Origin(topic, 2) for topic in app.topics})
    client = Client(loop.wsgi(build(app, settings, Reader(store), Freshness(topics, app.topics))))
    (view,) = app.views
    assert client.get(view.path.replace("<key>", "nothing")).get_json()["title"] == "Unknown key"
    assert view.path.replace("<key>", "{key}") in client.get("/openapi.json").get_json()["paths"]
