"""Folders of any file system of Arrow, by URI."""

import re
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from streamstate.errors import Declined, Misconfigured

_SHOWN = 400
"""The most characters of a reason: the reason of a missing library has a line for each tried path."""

_CREDENTIAL = re.compile(r"://[^@]*:[^@]*@")

_GS_RETRIES = "retry_limit_seconds"
"""The option of gs:// that ends attempts; by default, Arrow tries for 15 minutes."""


def opened(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder or a URI, and the path there.

    Raises `Misconfigured` for a URI unknown to Arrow, or with a credential, which errors and logs would show.
    """
    if _CREDENTIAL.search(uri):
        msg = "name the URI of the files without KEY:SECRET@; the environment, such as AWS_SECRET_ACCESS_KEY, has both"
        raise Misconfigured(msg)
    try:
        system, path = fs.FileSystem.from_uri(_absolute(uri))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        msg = f"{uri} cannot be opened ({str(error)[:_SHOWN]}); name a folder, or a URI such as s3://bucket/path"
        raise Misconfigured(msg) from error
    return system, path.rstrip("/")


def require_empty(uri: str) -> None:
    """Raise `Declined` for a folder or URI with files: readers would take files of another set for files of this."""
    system, path = opened(uri)
    if system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        msg = f"{uri} has files already; name a new folder, or remove the files"
        raise Declined(msg)


def _absolute(uri: str) -> str:
    """`uri` as Arrow reads it: a folder by its absolute path, and Hadoop's name for S3."""
    if uri.startswith("s3a://"):
        return uri.replace("s3a", "s3", 1)
    if uri.startswith(("gs://", "gcs://")) and _GS_RETRIES not in uri:
        return f"{uri}{'&' if '?' in uri else '?'}{_GS_RETRIES}=60"
    return uri if "://" in uri else str(Path(uri).resolve())
