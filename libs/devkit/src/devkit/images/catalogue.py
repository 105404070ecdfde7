"""The images that `make images` builds, and that `skaffold.yaml` and the charts name."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.registry import SERVICES

LOCKS = {
    "stream": ("requirements-base.txt", "requirements-stream.txt"),
    "api": ("requirements-base.txt", "requirements-api.txt"),
}
"""The lock files of each target of the Dockerfile."""


@dataclass(frozen=True)
class Image:
    """An image: its service, and the target of the Dockerfile."""

    service: str
    target: str

    @property
    def name(self) -> str:
        """Its name, without registry and tag."""
        return f"{self.service}-{self.target}"

    @property
    def locks(self) -> Sequence[Path]:
        """The lock files of its Python packages."""
        own = Path("services", self.service, "requirements.txt")
        return [*map(Path, LOCKS[self.target]), *([own] if self.target == "api" and own.exists() else [])]


def images(services: Sequence[str] = SERVICES) -> list[Image]:
    """The images of `services`, of the archiver and of the gateway."""
    of_services = [Image(name, target) for name in services for target in ("stream", "api")]
    return [*of_services, Image("archive", "api"), Image("gateway", "api")]
