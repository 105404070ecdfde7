"""Settings of the archiver."""

from pydantic import Field

from streamstate.deployment.connections import KafkaSettings, RegistrySettings, StatusSettings
from streamstate.formats.format import Format
from streamstate.history.archive.segments import FILE_BYTES


class ArchiverSettings(KafkaSettings, RegistrySettings, StatusSettings):
    """The archiver."""

    archive_topics: tuple[str, ...] = Field((), description='topics to archive: ["listening-events", "artists"]')
    archive_seconds: float = Field(3_600.0, gt=0, description="seconds between two files of a partition")
    archive_bytes: int = Field(FILE_BYTES, ge=1, description="size that closes a file earlier")
    archive_group: str = Field(
        "streamstate-archive", pattern=r"^[A-Za-z0-9._-]+$", description="consumer group of all archivers"
    )
    instance: str = Field("archive-0", description="static member of the consumer group, kept over restarts")
    formats: dict[str, Format] = Field(
        {},
        description="formats by topic, or by * for all, whose schemas the archive keeps",
    )
