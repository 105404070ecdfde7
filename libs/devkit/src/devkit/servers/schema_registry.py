"""A real schema registry: Apicurio with Confluent's API, started from its archive."""

import shutil
from pathlib import Path

import urllib3
from urllib3.exceptions import HTTPError

from devkit.servers.child_process import LOCALHOST, Child, require_free_port
from streamstate.spark.jars import downloading, java, resolve

VERSION = "3.0.9"
STARTED_S = 120
_MAIN = f"apicurio-registry-app-{VERSION}-runner.jar"
# The POM names an unpublished parent, so the archive is downloaded without a POM.
_IVY_XML = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="devkit" module="registry"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" conf="default->default">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
_SETTINGS_XML = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


def fetch(directory: Path) -> None:
    """Download the registry (109 MB) to `directory`, unless present. Raises `JarError`."""
    if (directory / _MAIN).exists():
        return
    with downloading(directory) as scratch:
        (scratch / "ivy.xml").write_text(_IVY_XML)
        (scratch / "settings.xml").write_text(_SETTINGS_XML)
        (archive,) = resolve(scratch, "-settings", "settings.xml").iterdir()
        shutil.unpack_archive(archive, scratch / "content")
        # The main jar comes last: its presence means that all files are present.
        for path in sorted((scratch / "content").iterdir(), key=lambda path: path.name == _MAIN):
            path.replace(directory / path.name)


class SchemaRegistry(Child):
    """A registry on 127.0.0.1. A restart on the same folder keeps the schemas and their ids."""

    def __init__(self, directory: Path, port: int, jars: Path) -> None:
        """Keep data and log in `directory`, the program in `jars`. Raises `JarError` without Java."""
        self._port = port
        self._jars = jars.absolute()
        settings = {
            "QUARKUS_HTTP_HOST": LOCALHOST,
            "QUARKUS_HTTP_PORT": str(port),
            "APICURIO_STORAGE_KIND": "sql",
            "APICURIO_STORAGE_SQL_KIND": "h2",
            # Without a delay: a killed registry must not forget an assigned id.
            "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{directory.absolute() / 'registry'};WRITE_DELAY=0",
        }
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        argv = (java(), *options, "-jar", str(self._jars / _MAIN))
        super().__init__("the schema registry", argv, directory.absolute() / "registry.log", settings)

    @property
    def url(self) -> str:
        """Where its API with Confluent's paths begins."""
        return f"http://{LOCALHOST}:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start the registry and wait for an answer (about 10 s, after the download the first time).

        Raises `DevkitError` with the end of the log after a failed start, and `JarError` without Java or download.
        """
        require_free_port(self.name, self._port, "REGISTRY_PORT")
        fetch(self._jars)
        super().start()
        self.wait_until(self._answers, timeout=STARTED_S)

    def _answers(self) -> bool:
        try:
            return urllib3.request("GET", f"{self.url}/subjects", timeout=1, retries=False).status == 200
        except HTTPError:
            return False
