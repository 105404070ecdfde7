"""Downloads the jars of Spark's Kafka source, listed in `jars.txt` with their checksums, by PySpark's own Ivy.

python -m streamstate.spark.jars DIR
"""

import fcntl
import hashlib
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from streamstate.errors import Misconfigured, StreamStateError
from streamstate.kafka.security import msk

_IVY_XML = """<ivy-module version="2.0">
  <info organisation="streamstate" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = '    <dependency org="{}" name="{}" rev="{}" transitive="{}" conf="default->{}"/>'


class JarError(StreamStateError):
    """Jars that could not be downloaded, or have another checksum."""


@dataclass(frozen=True)
class Jar:
    """A jar: its coordinates `group:artifact:version`, and its SHA-256 in hex."""

    module: str
    sha256: str

    @property
    def file(self) -> str:
        _, artifact, version = self.module.split(":")
        return f"{artifact}-{version}.jar"


def parse(manifest: str) -> list[Jar]:
    """The jars of a manifest, whose lines are `group:artifact:version sha256`, or comments (#)."""
    lines = (line.split() for line in manifest.splitlines() if line and not line.startswith("#"))
    return [Jar(module, sha256) for module, sha256 in lines]


def jars(directory: Path) -> list[Path]:
    """The paths in `directory` of the jars of `jars.txt`."""
    return [directory / jar.file for jar in pinned()]


def of_mechanism(mechanism: str, directory: Path) -> list[Path]:
    """The jars in `directory` that a SASL mechanism needs besides. Raises `Misconfigured` without them."""
    if mechanism != msk.AWS_MSK_IAM:
        return []
    found = [jar for jar in sorted(directory.glob(f"{msk.JAR}-*.jar")) if msk.has_classes(jar)]
    if not found:
        msg = (
            f"{msk.AWS_MSK_IAM} needs {msk.JAR}-VERSION-all.jar of {msk.RELEASES} in STREAMSTATE_JARS, {directory}: "
            "put the file there"
        )
        raise Misconfigured(msg)
    return found[-1:]


def fetch(directory: Path) -> list[Path]:
    """Download the jars of `jars.txt` to `directory`, unless present with the right checksums.

    Returns `jars(directory)`. A jar is moved to `directory` after verification. Raises `JarError` without Java or
    network, or for a wrong checksum.
    """
    wanted = pinned()
    if any(_sha256(directory / jar.file) != jar.sha256 for jar in wanted):
        with downloading(directory) as scratch:
            downloaded = retrieve([jar.module for jar in wanted], scratch, transitive=False)
            try:
                for jar in wanted:
                    verify(jar, downloaded / jar.file)
            except JarError:
                shutil.rmtree(scratch)
                raise
            for jar in wanted:
                (downloaded / jar.file).replace(directory / jar.file)
    return jars(directory)


@contextmanager
def downloading(directory: Path) -> Iterator[Path]:
    """A folder for downloads in `directory`, for one process at a time, kept after a failure: the next run goes on."""
    scratch = directory / ".fetch"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".fetching").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scratch.mkdir(exist_ok=True)
        yield scratch
        shutil.rmtree(scratch)


def verify(jar: Jar, path: Path) -> None:
    """Raises `JarError` unless the file at `path` is `jar`."""
    actual = _sha256(path)
    if actual != jar.sha256:
        msg = (
            f"{jar.file}: expected sha256 {jar.sha256}, found {actual}; it is not used. Run again; if the error stays, "
            "ask the operator of the proxy or mirror whether it changes files"
        )
        raise JarError(msg)


def retrieve(modules: Iterable[str], scratch: Path, *, transitive: bool) -> Path:
    """Download `modules` (`group:artifact:version`) with Ivy to a new folder in `scratch`; returns the folder.

    `transitive` includes their dependencies. Takes from seconds to minutes. Raises `JarError`.
    """
    how = ("true", "default") if transitive else ("false", "master")
    dependencies = "\n".join(_DEPENDENCY.format(*module.split(":"), *how) for module in modules)
    (scratch / "ivy.xml").write_text(_IVY_XML.format(dependencies=dependencies))
    return resolve(scratch)


def resolve(scratch: Path, *further: str) -> Path:
    """Download the modules in the `ivy.xml` of `scratch` to a new folder there; returns the folder. Raises `JarError`.

    further: options of Ivy.
    """
    options = ["-ivy", "ivy.xml", "-cache", "cache", "-confs", "default", *further]
    pattern = "jars/[artifact]-[revision](-[classifier]).[ext]"
    ivy_jar = next(spark_jars().glob("ivy-*.jar"))
    command = [java(), "-jar", str(ivy_jar), *options, "-retrieve", pattern]
    ivy = subprocess.run(command, check=False, cwd=scratch, capture_output=True, text=True)
    if ivy.returncode != 0:
        msg = (
            f"the jars could not be downloaded; the last lines of Ivy:\n{_tail(ivy.stdout + ivy.stderr)}\n"
            "Check the network and run again; for a proxy, first set "
            "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=<host> -Dhttps.proxyPort=<port>'"
        )
        raise JarError(msg)
    return scratch / "jars"


def java() -> str:
    """Spark's java: of JAVA_HOME, else of the PATH. Raises `JarError` without Java."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin" if home else None)
    if program is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        msg = f"there is no java {where}; install Java 17 or 21 (Debian: openjdk-17-jre-headless)"
        raise JarError(msg)
    return program


FURTHER_USERS = Path("/var/lib/extrausers/passwd")
"""What the image reads besides /etc/passwd: a link into a writable folder (libnss-extrausers, in the Dockerfile)."""


def require_name(further_users: Path = FURTHER_USERS) -> None:
    """Give the user of this process a name, if it has none, by an entry in the target of the link `further_users`.

    Kubernetes runs a container as any user (`runAsUser`). Java's login for Hadoop fails for a user without an entry.
    Raises `Misconfigured` where the system reads no such entry.
    """
    if _is_named():
        return
    # The reader leaves out entries with the group of root.
    entry = f"streamstate:x:{os.getuid()}:{os.getuid()}::/tmp:/usr/sbin/nologin\n"
    with suppress(OSError):
        further_users.readlink().write_text(entry)
    if not _is_named():
        advice = "add an entry, or run the project's image as user 500 or above"
        msg = f"user {os.getuid()} has no entry in /etc/passwd, so Java cannot start; {advice}"
        raise Misconfigured(msg)


def _is_named() -> bool:
    try:
        return bool(pwd.getpwuid(os.getuid()))
    except KeyError:
        return False


def pinned() -> list[Jar]:
    """The jars of `jars.txt`."""
    return parse(Path(__file__).with_name("jars.txt").read_text())


def _sha256(path: Path) -> str | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def spark_jars() -> Path:
    """The folder of PySpark's own jars. Raises `JarError` when PySpark is not installed."""
    # PySpark is located, not imported: importing takes a second.
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        msg = "PySpark is not installed here; install streamstate[spark], or use the image of a stream"
        raise JarError(msg)
    return Path(pyspark.origin).parent / "jars"


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-20:])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m streamstate.spark.jars DIR")
    try:
        fetched = fetch(Path(sys.argv[1]))
    except JarError as error:
        sys.exit(str(error))
    print(f"{len(fetched)} jars are in {sys.argv[1]}")
