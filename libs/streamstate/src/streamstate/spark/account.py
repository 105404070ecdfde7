"""A name for the user of a container: Java's login for Hadoop fails for a user without an entry in /etc/passwd.

Kubernetes runs a container as any user (`runAsUser`). The image reads users from a further file, which is a link to a
writable folder (libnss-extrausers, in the Dockerfile).
"""

import os
import pwd
from contextlib import suppress
from pathlib import Path

from streamstate.errors import Misconfigured

FURTHER = Path("/var/lib/extrausers/passwd")


def require_name(further: Path = FURTHER) -> None:
    """Give the user of this process a name, if it has none, by an entry in the file that `further` links to.

    Raises `Misconfigured` where the system reads no such entry.
    """
    if _is_named():
        return
    # The reader leaves out entries with the group of root.
    entry = f"streamstate:x:{os.getuid()}:{os.getuid()}::/tmp:/usr/sbin/nologin\n"
    with suppress(OSError):
        further.readlink().write_text(entry)
    if not _is_named():
        advice = "add an entry, or run the project's image as user 500 or above"
        msg = f"user {os.getuid()} has no entry in /etc/passwd, so Java cannot start; {advice}"
        raise Misconfigured(msg)


def _is_named() -> bool:
    try:
        return bool(pwd.getpwuid(os.getuid()))
    except KeyError:
        return False
