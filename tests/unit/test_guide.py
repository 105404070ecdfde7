"""The Python of docs/add-a-service.md: the code runs unchanged, and the service has the documented size."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from werkzeug.test import Client

from streamstate.app import App
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin
from streamstate.testing import FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from tests.serving import Loop

GUIDE = Path("docs/add-a-service.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
FILES = {named[1]: block for block in BLOCKS if (named := re.match(r"# (services/\S+\.py)\n", block))}
MODELS = [path for path in FILES if path.endswith("/model.py")]
TRIALS = [block for block in BLOCKS if block not in FILES.values()]
MOST_LINES = 45
MOST_NAMES, MOST_MODULES = 8, 2
# Without a folder, ruff cannot recognize first-party imports.
CONFIG = ("--config", 'lint.isort.known-first-party=["services", "streamstate"]')


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The files of the guide as modules that can be imported."""
    made: dict[str, ModuleType] = {}
    for path, text in FILES.items():
        name = module_name(path)
        for each in (name.rpartition(".")[0], name):
            if each != "services":
                monkeypatch.setitem(sys.modules, each, made.setdefault(each, ModuleType(each)))
        exec(compile(text, path, "exec"), made[name].__dict__)
    return made


def test_the_guide_has_all_that_is_tested() -> None:
    assert len(MODELS) == len(TRIALS) == 1
    assert len(BLOCKS) == len(FILES) + len(TRIALS)


@pytest.mark.parametrize("path", MODELS)
def test_a_model_is_short(path: str) -> None:
    assert len(FILES[path].splitlines()) < MOST_LINES


@pytest.mark.parametrize("folder", sorted({str(Path(path).parent) for path in FILES}))
def test_a_service_needs_little_of_the_library(folder: str) -> None:
    imports = {
        (node.module, name.name)
        for path, text in FILES.items()
        if path.startswith(f"{folder}/")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("streamstate")
        for name in node.names
    }
    assert len(imports) <= MOST_NAMES
    assert len({module for module, _ in imports}) <= MOST_MODULES


@pytest.mark.parametrize("number", range(len(TRIALS)))
@pytest.mark.usefixtures("modules")
def test_a_trial_does_what_it_says(number: int) -> None:
    exec(compile(TRIALS[number], f"trial {number}", "exec"), {})


@pytest.mark.parametrize("path", FILES)
def test_the_code_is_as_clean_as_ours(path: str) -> None:
    for command in (["check"], ["format", "--check"]):
        argv = [sys.executable, "-m", "ruff", *command, *CONFIG, "--stdin-filename", path, "-"]
        checked = subprocess.run(argv, check=False, input=FILES[path], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("path", MODELS)
def test_the_api_of_a_model_answers(path: str, modules: dict[str, ModuleType], loop: Loop) -> None:
    app: App = modules[module_name(path)].APP
    store, topics = MemoryStore(), FixedTopics(dict.fromkeys(app.topics, 2))
    settings = load(ApiSettings)
    for partition in range(2):
        store.claim(partition, settings.advertise, {}, {topic: Origin(topic, 2) for topic in app.topics})
    client = Client(loop.wsgi(build(app, settings, MemoryReader(store), Freshness(topics, app.topics))))
    (view,) = app.views
    assert client.get(view.path.replace("<key>", "7")).get_json()["title"] == "Unknown key"
    assert view.path.replace("<key>", "{key}") in client.get("/openapi.json").get_json()["paths"]


NAME = "sessions"
COPIED = ("charts", "docs", "libs", "services", "tests", "Makefile", "README.md", "pyproject.toml", "skaffold.yaml")
GENERATED = {
    "charts/gateway/README.md", "charts/gateway/values.yaml", "charts/infra/README.md", "charts/infra/values.yaml",
    "charts/suite/Chart.yaml", "charts/suite/README.md", f"charts/suite/charts/{NAME}",
    "charts/suite/values.schema.json", "charts/suite/values.yaml", "docs/rights.md",
    "skaffold.yaml",
}  # fmt: skip
KNOWN = """
import json
from pathlib import Path
from devkit import registry, topics
from devkit.cluster import local_cluster
from devkit.docs import rights
from devkit.charts import skaffold

plan = local_cluster.Plan(Path(), Path(), 1, 2, 3)
print(json.dumps({
    "registry": list(registry.SERVICES),
    "topics": list(topics.configurations()),
    "demo": list(plan.addresses()),
    "skaffold": [release["name"] for release in skaffold.document()["deploy"]["helm"]["releases"]],
    "rights": rights.text(),
}))
"""


class Copy:
    """A copy of the project with the first service of the guide, after `make docs`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in COPIED:
            if Path(name).is_dir():
                shutil.copytree(name, root / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(name, root / name)
        self.before = self.contents()
        (root / "services" / NAME).mkdir()
        for path, text in FILES.items():
            if path.startswith(f"services/{NAME}/"):
                (root / path).write_text(text)
        self.python("-m", "devkit.docs.reference")
        self.python("-m", "devkit.charts")

    def contents(self) -> dict[str, str]:
        """What each file holds, or where the link leads, by path."""
        paths = [Path(folder, name) for folder, _, names in os.walk(self.root) for name in names]
        paths += self.root.glob("charts/*/charts/*")
        return {
            str(path.relative_to(self.root)): str(path.readlink())
            if path.is_symlink()
            else path.read_text(errors="replace")
            for path in paths
            if "__pycache__" not in path.parts
        }

    def python(self, *arguments: str) -> str:
        """What Python prints in the copy."""
        paths = os.pathsep.join(str(self.root / path) for path in (Path(), *Path().glob("libs/*/src")))
        environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(
            [sys.executable, *arguments], check=False, cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"))


class TestTheFirstService:
    def test_nothing_else_is_edited_by_hand(self, copy: Copy) -> None:
        after = copy.contents()
        changed = {path for path, text in after.items() if copy.before.get(path) != text}
        own = {path for path in changed if path.startswith((f"services/{NAME}/", f"charts/{NAME}/"))}
        assert changed - own == GENERATED
        assert set(copy.before) <= set(after)

    def test_its_chart_has_what_the_chart_of_another_service_has(self, copy: Copy) -> None:
        after = copy.contents()

        def chart(name: str) -> set[str]:
            return {path.removeprefix(f"charts/{name}/") for path in after if path.startswith(f"charts/{name}/")}

        assert chart(NAME) == chart("clicks")
        assert f"name: {NAME}\n" in after[f"charts/{NAME}/Chart.yaml"]
        assert after[f"charts/{NAME}/values.yaml"] == "../streamstate/service/values.yaml"

    def test_the_rest_of_the_project_knows_it(self, copy: Copy) -> None:
        known = json.loads(copy.python("-c", KNOWN))
        for place in ("registry", "demo", "skaffold"):
            assert NAME in known[place], place
        assert f"{NAME}-dlq" in known["topics"]
        assert f"| {NAME} | `listening-events` |" in known["rights"]
        assert f"{NAME}-dlq" in copy.contents()["charts/infra/values.yaml"]
        assert f'"{NAME}": "{NAME}"' in copy.contents()["charts/gateway/values.yaml"]

    def test_it_runs(self, copy: Copy) -> None:
        (trial,) = (text for text in TRIALS if f"services.{NAME}." in text)
        copy.python("-c", trial)

    def test_it_is_typed(self, copy: Copy) -> None:
        if (cache := Path(".mypy_cache")).is_dir():
            shutil.copytree(cache, copy.root / cache)
        copy.python("-m", "mypy", f"services/{NAME}")

    def test_it_keeps_the_laws(self, copy: Copy) -> None:
        laws = (
            "laws/test_app_laws.py",
            "laws/test_verified_states.py",
            "laws/test_structure.py",
            "unit/web/test_contract.py",
        )
        paths = [f"tests/{law}" for law in laws]
        chosen = f"{NAME}] and not another_version or test_no_two_services or test_what_services_declare"
        passed = copy.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *paths, "-k", chosen)
        # Two laws of every app, two of all together, three of verified states, and the contract of its API.
        assert "9 passed" in passed, passed
