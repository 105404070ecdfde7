"""A backup as a folder: snapshots, and a manifest of their contents."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from streamstate.deployment.scratch import LOCK, scratch
from streamstate.errors import Declined

NAME = "backup.json"
PARTIAL = ".partial"
"""The folder of unfinished backups."""


class SavedTopic(msgspec.Struct):
    """A topic at the time of the state's build."""

    id: str
    partitions: int


class SavedService(msgspec.Struct):
    """A saved state: its topics, the next offset of each partition by topic, and partitions with half a commit."""

    topics: dict[str, SavedTopic]
    positions: dict[str, dict[int, int]]
    incomplete: list[int]


class Manifest(msgspec.Struct):
    """A backup: begin of the snapshots (UTC), URL and version of Redis, files, their bytes, and states by name."""

    taken: datetime
    redis: str
    version: str
    files: list[str]
    bytes: int
    services: dict[str, SavedService]


@contextmanager
def new_folder(parent: Path, taken: datetime) -> Iterator[tuple[Path, Path]]:
    """A folder for the files of a backup, and the name that it gets at the end of the body; deleted after an error.

    Deletes the folders of killed backups in `parent`.
    """
    final = parent / f"{taken:%Y-%m-%dT%H-%M-%SZ}"
    with scratch(parent / PARTIAL) as folder:
        yield folder, final
        (folder / LOCK).unlink()
        folder.rename(final)


def write(folder: Path, manifest: Manifest) -> None:
    """Write `manifest`, and wait until the disk has the folder."""
    with (folder / NAME).open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)))
        os.fsync(file.fileno())
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_of(backup: Path) -> tuple[list[Path], datetime | None]:
    """The snapshots of a backup, and when it was taken: a folder with a manifest or with RDB files, or one RDB file.

    Raises `Declined` for anything else, and for an unfinished or incomplete backup.
    """
    if backup.is_file():
        return [backup], None
    if PARTIAL in backup.parts:
        msg = f"{backup} is the rest of a backup that was interrupted; take another one"
        raise Declined(msg)
    if (backup / NAME).exists():
        manifest = msgspec.json.decode((backup / NAME).read_bytes(), type=Manifest)
        files = [backup / name for name in manifest.files]
        if missing := [file for file in files if not file.exists()]:
            msg = f"{missing[0]} is missing; take another backup"
            raise Declined(msg)
        return files, manifest.taken
    if files := sorted(backup.glob("*.rdb")):
        return files, None
    backups = sorted(manifest.parent for manifest in backup.glob(f"*/{NAME}"))
    newest = f"; the newest backup there is {backups[-1]}" if backups else ""
    msg = f"{backup} is no backup: it has neither {NAME} nor a file *.rdb{newest}"
    raise Declined(msg)


def now() -> datetime:
    """The present second."""
    return datetime.now(UTC).replace(microsecond=0)
