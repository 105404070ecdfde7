"""The file of the releases beside the first, outside Kubernetes: written by `stage`, read by a gateway."""

import fcntl
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from streamstate.errors import Misconfigured


class ByHand(msgspec.Struct, frozen=True):
    """A release: the address of its API (host:port), its package, and its environment variables without prefix."""

    address: str
    package: str
    settings: dict[str, str] = {}


Written = Mapping[str, Mapping[str, ByHand | None]]
"""The releases by service and name; None for a dropped first release, whose name is the service's."""


def read(path: Path) -> Written:
    """The releases in the file, none without a file. Raises `Misconfigured` for an unreadable file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, ByHand | None]])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        msg = f"the file of releases {path} cannot be read ({error}); correct RELEASES, or delete the file"
        raise Misconfigured(msg) from error


def change(path: Path, service: str, name: str, release: ByHand | None) -> None:
    """Replace the file by one with `release` under this name; None drops the release. One process after another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        releases = read(path)
        others = {each: of for each, of in releases.get(service, {}).items() if each != name}
        changed = {**releases, service: others | ({name: release} if release or name == service else {})}
        with NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.", delete=False) as written:
            written.write(msgspec.json.format(msgspec.json.encode(changed)))
        Path(written.name).replace(path)


def beside(releases: Written) -> Iterator[tuple[str, str, ByHand]]:
    """Service, name and release of each release to run."""
    return ((service, name, of) for service, each in releases.items() for name, of in each.items() if of)


def dropped(releases: Written) -> set[str]:
    """The services whose first release is dropped."""
    return {service for service, each in releases.items() if service in each and each[service] is None}
