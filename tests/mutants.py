"""A mutation trial: which small faults in the product do the fast tests find?

`python -m tests.mutants [seed] [group ...]` copies the working tree, puts ten faults into the files of each group, one
at a time, and runs the tests of the group: a changed operator, bound, sum or condition. It prints each fault that no
test found, and counts. The same seed over the same product makes the same faults, so two sets of tests can be compared.
"""

import ast
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.waiting import PATIENCE_S

LIBRARY = "libs/streamstate/src/streamstate"
PACKAGES = ("client", "strictasgi", "streamstate", "devkit")
FAULTS = 10


class Group(NamedTuple):
    """Patterns of files, and the tests that run over faults in them."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "scripts": Group(
        (f"{LIBRARY}/state/lua/*.lua",),
        ("tests/laws/test_store_laws.py", "tests/laws/test_store_agreement.py", "tests/laws/test_redis_refusals.py"),
    ),
    "commit": Group(
        (f"{LIBRARY}/state/memory.py", f"{LIBRARY}/state/timelines.py", f"{LIBRARY}/processing/*.py"),
        ("tests/laws/test_app_laws.py", "tests/laws/test_store_laws.py", "tests/laws/test_refused_records.py"),
    ),
    "folds": Group(
        (f"{LIBRARY}/profile/*.py", f"{LIBRARY}/profile/windows/*.py", f"{LIBRARY}/functions/*.py"),
        ("tests/unit/profile", "tests/laws/test_profile*.py", "tests/laws/test_function*.py"),
    ),
    "expiry": Group(
        (
            f"{LIBRARY}/state/deletion.py",
            f"{LIBRARY}/erasure/*.py",
            f"{LIBRARY}/profile/layout.py",
            "services/*/model.py",
        ),
        (
            "tests/laws/test_deletion.py",
            "tests/laws/test_erasure_laws.py",
            "tests/laws/test_fold_laws.py",
            "tests/unit",
        ),
    ),
    "routing": Group(
        ("services/gateway/routing/*.py", "services/gateway/access/l*", f"{LIBRARY}/keys/*.py", f"{LIBRARY}/web/*.py"),
        ("tests/unit/gateway", "tests/unit/web"),
    ),
}

OPPOSITE = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "~=": "==", "in": "not in", "not in": "in",
    "is": "is not", "is not": "is", "+": "-", "-": "+", "and": "or", "or": "and", "min": "max", "max": "min",
    "math.min": "math.max", "math.max": "math.min", "True": "False", "False": "True", "not ": "",
}  # fmt: skip
LUA = re.compile(r"(?<= )(<=|>=|==|~=|<|>|\+|-|and|or)(?= )|math\.(?:min|max)")


class Fault(NamedTuple):
    """A replacement of the characters from `start` to `end` of a file."""

    file: Path
    start: int
    end: int
    text: str

    def made(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]

    def told(self, source: str) -> str:
        """Where it is, and the line before and after."""
        line = source[: self.start].count("\n")
        before, after = (text.splitlines()[line].strip() for text in (source, self.made(source)))
        return f"{self.file}:{line + 1}: {before}  ->  {after}"


def lua_faults(file: Path, source: str) -> Iterator[Fault]:
    comments = [range(*comment.span()) for comment in re.finditer("--.*", source)]
    for found in LUA.finditer(source):
        if not any(found.start() in comment for comment in comments):
            yield Fault(file, *found.span(), OPPOSITE[found[0]])


class Parsed:
    """A Python file with the place of each node among its characters."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.nodes = [*ast.walk(ast.parse(source))]
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr) -> tuple[int, int]:
        ends = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
        # Columns count bytes of UTF-8.
        start, end = (self._starts[n - 1] + len(self._lines[n - 1].encode()[:at].decode()) for n, at in ends)
        return start, end

    def operators(self) -> Iterator[tuple[int, str]]:
        """Each operator, and where it begins."""
        for node in self.nodes:
            match node:
                case (
                    ast.Compare(left=left, comparators=[right])
                    | ast.BinOp(left=left, right=right)
                    | ast.BoolOp(values=[left, right, *_])
                ):
                    first = self.span(left)[1]
                    operator = self.source[first : self.span(right)[0]].strip(" ()\n")
                    yield self.source.index(operator, first), operator
                case ast.Name(id="min" | "max" as name) | ast.Constant(value=(True | False) as name):
                    yield self.span(node)[0], str(name)
                case ast.UnaryOp(op=ast.Not()):
                    yield self.span(node)[0], "not "


def python_faults(file: Path, source: str) -> Iterator[Fault]:
    parsed = Parsed(source)
    for start, operator in parsed.operators():
        if operator in OPPOSITE:
            yield Fault(file, start, start + len(operator), OPPOSITE[operator])
    for node in parsed.nodes:
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
            yield Fault(file, *parsed.span(node), str(node.value + 1))


def chosen(group: Group, tree: Path, draw: random.Random) -> list[tuple[Fault, str]]:
    """Faults of the group, each with the text of its file."""
    all_faults = []
    for pattern in group.files:
        for path in sorted(tree.glob(pattern)):
            source = path.read_text()
            faults = lua_faults if path.suffix == ".lua" else python_faults
            all_faults += [(fault, source) for fault in faults(path.relative_to(tree), source)]
    return draw.sample(all_faults, FAULTS)


def passes(tests: Sequence[str], tree: Path) -> bool:
    """Whether no test fails; a hang is a failure."""
    paths = [str(path.relative_to(tree)) for pattern in tests for path in sorted(tree.glob(pattern))]
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1", *paths]
    libraries = os.pathsep.join(str(tree / "libs" / name / "src") for name in PACKAGES)
    try:
        run = subprocess.run(
            argv,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": libraries},
            capture_output=True,
            check=False,
            timeout=5 * PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def copy(tree: Path) -> None:
    """The files of the working tree that are under version control."""
    names = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in names.split("\0")[:-1]:
        tree.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, tree / name, follow_symlinks=False)


def main() -> None:
    """Run the trial."""
    seed, groups = int((sys.argv[1:] or ["1"])[0]), sys.argv[2:] or list(GROUPS)
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        copy(tree)
        for name in groups:
            group, missed = GROUPS[name], 0
            if not passes(group.tests, tree):
                sys.exit(f"the tests of {name} fail without a fault: mend them first")
            for fault, source in chosen(group, tree, random.Random(seed)):
                (tree / fault.file).write_text(fault.made(source))
                if passes(group.tests, tree):
                    missed += 1
                    print(f"missed  {fault.told(source)}", flush=True)
                (tree / fault.file).write_text(source)
            print(f"{name}: {FAULTS - missed} of {FAULTS} faults found", flush=True)


if __name__ == "__main__":
    main()
