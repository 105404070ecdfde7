"""A container's user without a name, for whom Java does not start."""

import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from tempfile import gettempdir

import pytest

from streamstate.spark.jars import FURTHER_USERS

NAMELESS = 54_321
REQUIRED = """
import os, sys
from pathlib import Path
from streamstate.spark.jars import require_name
os.setuid(int(sys.argv[1]))
require_name(Path(sys.argv[2]))
"""


def required(further: Path, user: int) -> subprocess.CompletedProcess[str]:
    """`require_name` in a process of `user`."""
    argv = [sys.executable, "-c", REQUIRED, str(user), str(further)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_nameless_user_gets_an_entry_where_the_image_reads_it_and_else_an_advice(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in takewhile(Path(gettempdir()).__ne__, tmp_path.parents):
        parent.chmod(0o755)
    further, entries = tmp_path / "further", tmp_path / "passwd"
    further.symlink_to(entries)
    # This machine does not read the entry.
    refused = required(further, NAMELESS).stderr
    assert f"Misconfigured: user {NAMELESS} has no entry in /etc/passwd, so Java cannot start; add" in refused
    assert entries.read_text() == f"streamstate:x:{NAMELESS}:{NAMELESS}::/tmp:/usr/sbin/nologin\n"
    entries.unlink()
    assert required(further, 0).returncode == 0
    assert not entries.exists()


def test_the_image_reads_further_users_from_a_link_into_a_writable_folder() -> None:
    image = Path("Dockerfile").read_text()
    assert f"ln -s /tmp/passwd {FURTHER_USERS}" in image
    assert "libnss-extrausers" in image
    assert "s/^passwd:.*/passwd: files extrausers/" in image
