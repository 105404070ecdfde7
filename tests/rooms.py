"""Which files of fast tests are about a package, a room of the library, or a service: `python -m tests.rooms state`.

A file is about the folder below `tests/unit` that it is in, and about what it imports most from; the words that all
rooms share count only where there is nothing else.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

UNIT, LAWS = Path("tests/unit"), Path("tests/laws")
SHARED = {"app", "errors", "events", "keys", "settings", "testing", "texts", "view", "state.operations", "state.store"}
SERVERS = {"servers.child_process", "servers.redis"}


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """The room, service or package of each import of `path`, and whether all rooms share it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                package, *parts = [*node.module.split("."), name.name]
                if package in ("client", "devkit", "strictasgi"):
                    yield package, ".".join(parts[:2]) in SERVERS
                elif package in ("streamstate", "services"):
                    yield parts[0], not SHARED.isdisjoint((parts[0], ".".join(parts[:2])))


def rooms(path: Path) -> set[str]:
    counts = Counter(imported(path))
    own = {name: count for (name, shared), count in counts.items() if not shared} or {
        n: c for (n, _), c in counts.items()
    }
    most = {name for name, count in own.items() if count == max(own.values())}
    return most | ({path.relative_to(UNIT).parts[0]} if path.parent.parent == UNIT else set())


def main() -> None:
    """Print the files of the room, or fail with the rooms that there are."""
    by_file = {path: rooms(path) for folder in (UNIT, LAWS) for path in sorted(folder.rglob("test_*.py"))}
    room = sys.argv[1] if sys.argv[1:] else ""
    if not (files := [str(path) for path, names in by_file.items() if room in names]):
        sys.exit(
            f"no test is about {room!r}: name a room by ROOM, of {', '.join(sorted(set().union(*by_file.values())))}"
        )
    print(*files)


if __name__ == "__main__":
    main()
