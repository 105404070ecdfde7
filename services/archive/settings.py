"""Settings of the archiver."""

from pydantic import Field

from streamstate.archive.segments import FILE_BYTES
from streamstate.deployment.connections import KafkaSettings, RegistrySettings
from streamstate.formats.format import Format


class ArchiverSettings(KafkaSettings, RegistrySettings):
    """The archiver."""

    archive_topics: tuple[str, ...] = Field((), description='topics to archive: ["listening-events", "artists"]')
    archive_seconds: float = Field(3_600.0, gt=0, description="seconds between two files of a partition")
    archive_bytes: int = Field(FILE_BYTES, ge=1, description="bytes after which a file is closed earlier")
    archive_group: str = Field(
        "streamstate-archive", pattern=r"^[A-Za-z0-9._-]+$", description="consumer group by which archivers share work"
    )
    instance: str = Field(
        "archive-0", description="name of this instance, kept over restarts (static member of the consumer group)"
    )
    formats: dict[str, Format] = Field(
        {},
        description="formats by topic, or by * for all: schemas of topics with the value avro, protobuf or jsonschema "
        "are kept in the archive",
    )
    status_port: int = Field(0, ge=0, le=65535, description="port of /livez, /readyz and /metrics; 0 for none")
