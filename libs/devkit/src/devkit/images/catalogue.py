"""The images that there are: `make images` builds them, `skaffold.yaml` and the charts name them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.registry import SERVICES

LOCKS = {
    "stream": ("requirements-base.txt", "requirements-stream.txt"),
    "api": ("requirements-base.txt", "requirements-api.txt"),
}
"""The lock files that a target of the Dockerfile installs."""


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
    """Those of `services`, and that of the gateway."""
    return [Image(name, target) for name in services for target in ("stream", "api")] + [Image("gateway", "api")]
