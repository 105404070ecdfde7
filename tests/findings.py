"""What a law finds wrong in files."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path


def faults(paths: Iterable[Path], look: Callable[[Path], Collection[str]]) -> dict[str, Collection[str]]:
    """What `look` finds, by the path."""
    return {str(path): found for path in paths if (found := look(path))}
