"""The jars of Spark's Kafka source: `jars.txt` names them and their checksums, and this brings them.

python -m streamstate.spark.jars DIR
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from streamstate.errors import StreamStateError

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
    """Jars that could not be brought, or that are not the ones expected."""


@dataclass(frozen=True)
class Jar:
    """A jar by its coordinates `group:artifact:version`, and the sha256 of its bytes in hex."""

    module: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file name."""
        _, artifact, version = self.module.split(":")
        return f"{artifact}-{version}.jar"


def parse(manifest: str) -> list[Jar]:
    """The jars of a manifest: one a line, `group:artifact:version sha256`, and comments that start with #."""
    lines = (line.split() for line in manifest.splitlines() if line and not line.startswith("#"))
    return [Jar(module, sha256) for module, sha256 in lines]


def jars(directory: Path) -> list[Path]:
    """Where `fetch` puts the jars of `jars.txt`: joined by commas, the value of `spark.jars`."""
    return [directory / jar.file for jar in _pinned()]


def fetch(directory: Path) -> list[Path]:
    """Bring the jars of `jars.txt` to `directory`; returns `jars(directory)`.

    Does nothing when all are there and right. A jar appears in `directory` only whole and verified.
    Raises `JarError` when Java, the network or a right checksum is missing.
    """
    pinned = _pinned()
    if any(_sha256(directory / jar.file) != jar.sha256 for jar in pinned):
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
            brought = retrieve([jar.module for jar in pinned], Path(scratch), transitive=False)
            for jar in pinned:
                verify(jar, brought / jar.file)
            for jar in pinned:
                (brought / jar.file).replace(directory / jar.file)
    return jars(directory)


def verify(jar: Jar, path: Path) -> None:
    """Raises `JarError` unless the file at `path` is `jar`."""
    found = _sha256(path)
    if found != jar.sha256:
        msg = (
            f"{jar.file}: expected sha256 {jar.sha256}, found {found}; it is not used. Run again; "
            "if this stays, a proxy or mirror on the way changes the file: ask who runs it"
        )
        raise JarError(msg)


def retrieve(modules: Iterable[str], scratch: Path, *, transitive: bool) -> Path:
    """Let Ivy bring `modules` (`group:artifact:version`) to a new folder inside `scratch`, which is returned.

    `transitive` brings all that they need too. Takes from seconds to minutes. Raises `JarError`.
    """
    how = ("true", "default") if transitive else ("false", "master")
    dependencies = "\n".join(_DEPENDENCY.format(*module.split(":"), *how) for module in modules)
    (scratch / "ivy.xml").write_text(_IVY_XML.format(dependencies=dependencies))
    # A cache of its own: an interrupted download can spoil nobody else's, and nobody else's this one.
    options = ["-ivy", "ivy.xml", "-cache", "cache", "-confs", "default"]
    pattern = "jars/[artifact]-[revision](-[classifier]).[ext]"
    command = [java(), "-jar", str(_ivy()), *options, "-retrieve", pattern]
    ivy = subprocess.run(command, check=False, cwd=scratch, capture_output=True, text=True)
    if ivy.returncode != 0:
        msg = (
            f"the jars could not be brought; Ivy's last lines:\n{_tail(ivy.stdout + ivy.stderr)}\n"
            "Check the network and run again; for a proxy, first set "
            "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=<host> -Dhttps.proxyPort=<port>'"
        )
        raise JarError(msg)
    return scratch / "jars"


def java() -> str:
    """The java that Spark takes: that of JAVA_HOME, else the PATH's first. Raises `JarError` without one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        msg = f"there is no java {where}; install Java 17 or 21 (Debian: openjdk-17-jre-headless)"
        raise JarError(msg)
    return found


def _pinned() -> list[Jar]:
    return parse(Path(__file__).with_name("jars.txt").read_text())


def _sha256(path: Path) -> str | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _ivy() -> Path:
    # Found, not imported: importing PySpark costs a second and starts nothing that is needed here.
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        msg = "PySpark, which ships Ivy, is not installed here; install streamstate[spark]"
        raise JarError(msg)
    return next(Path(pyspark.origin).parent.glob("jars/ivy-*.jar"))


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-20:])


def main() -> None:
    """Bring the jars to the folder named on the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m streamstate.spark.jars DIR")
    try:
        brought = fetch(Path(sys.argv[1]))
    except JarError as error:
        sys.exit(str(error))
    print(f"{len(brought)} jars are in {sys.argv[1]}")


if __name__ == "__main__":
    main()
