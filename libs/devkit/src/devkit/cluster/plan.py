"""The parts of a cluster on a single machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devkit.registry import STANDARD, by_name
from devkit.servers.child_process import LOCALHOST, free_port


@dataclass(frozen=True)
class Plan:
    """Folders, ports (free ones by default), the services, and the number of instances of a service with several.

    `services` are named as in `devkit.registry`, `instances` by their apps. `home` is for data and logs, `cache` for
    downloads. `value` is the format of the values of all topics; when empty, services keep their own formats, and there
    is no schema registry. `archive` keeps the records of the services' topics; when empty, there is none. Apps
    in `apart` have a stream process each.
    """

    home: Path
    cache: Path
    gateway_port: int = field(default_factory=free_port)
    kafka_port: int = field(default_factory=free_port)
    redis_port: int = field(default_factory=free_port)
    instances: Mapping[str, int] = field(default_factory=dict)
    services: Sequence[str] = STANDARD
    value: str = ""
    registry_port: int = field(default_factory=free_port)
    archive: str = ""
    apart: Sequence[str] = ()

    def addresses(self) -> dict[str, list[str]]:
        """An address for each instance of each service, by the name of the app.

        Raises `DevkitError` for two services of one name or path.
        """
        counts = {name: self.instances.get(name, 1) for name in by_name(self.services)}
        return {name: [f"{LOCALHOST}:{free_port()}" for _ in range(count)] for name, count in counts.items()}
