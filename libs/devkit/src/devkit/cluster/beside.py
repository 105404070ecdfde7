"""The releases beside the services, which `streamstate stage` and `drop` write into a file: run as child processes."""

from collections.abc import Callable
from pathlib import Path

from devkit.servers.child_process import Child
from streamstate.releases import file


class Beside:
    """Runs the releases in the file at `path`. `make` makes the processes of a release by its name."""

    def __init__(self, path: Path, make: Callable[[str, file.ByHand], list[Child]], say: Callable[[str], None]) -> None:
        self.path = path
        self._make = make
        self._say = say
        self._running: dict[str, list[Child]] = {}

    @property
    def children(self) -> list[Child]:
        return [child for children in self._running.values() for child in children]

    @property
    def dropped(self) -> set[str]:
        """The services whose first release is dropped."""
        return file.dropped(file.read(self.path))

    def tend(self) -> None:
        """Start the releases that are new in the file, and stop others."""
        wanted = {name: release for _, name, release in file.beside(file.read(self.path))}
        for name in self._running.keys() - wanted.keys():
            self._say(f"stopping the release {name}")
            for child in self._running.pop(name):
                child.stop()
        for name in wanted.keys() - self._running.keys():
            self._say(f"starting the release {name}")
            self._running[name] = self._make(name, wanted[name])
            for child in self._running[name]:
                child.start()
