"""The images: installed packages, omitted files, and fetched jars."""

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from devkit.images.catalogue import Image
from devkit.images.sbom import bill, packages, pins
from streamstate.spark.jars import Jar, JarError, downloading, fetch, spark_jars, verify

# The images: installed packages, omitted files, and their documents.

DOCKERFILE = Path("Dockerfile").read_text()
STREAM, API, GATEWAY = Image("metrics", "stream"), Image("metrics", "api"), Image("gateway", "api")


def test_what_all_images_share_is_a_part_of_each() -> None:
    """So the base's layer has the common packages, and other layers add further packages."""
    base = set(pins(Path("requirements-base.txt").read_text()))
    assert base
    for target in ("stream", "api"):
        assert base <= set(pins(Path(f"requirements-{target}.txt").read_text())), "run make requirements"


def test_every_lock_file_that_is_installed_is_in_the_documents() -> None:
    installed = set(re.findall(r"-r (requirements-[a-z]+\.txt)", DOCKERFILE))
    assert installed == {path.name for image in (STREAM, API) for path in image.locks}
    assert Path("services/gateway/requirements.txt") in GATEWAY.locks


def test_every_jar_that_is_left_out_was_there() -> None:
    """`rm` fails for a pattern without a file: here that is seen before an image is built."""
    [removed] = re.findall(r"cd pyspark/jars && rm ([^)]*)\)", DOCKERFILE)
    for pattern in removed.replace("\\\n", " ").split():
        assert list(spark_jars().glob(pattern)), pattern


@pytest.mark.parametrize("image", [STREAM, API, GATEWAY, Image("recommendations", "api")], ids=lambda image: image.name)
def test_the_document_of_an_image_is_valid_and_names_its_packages_with_their_licences(image: Image) -> None:
    text = JsonV1Dot6(bill(image)).output_as_string()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    components = {each["purl"]: each for each in document["components"]}
    assert set(pins(image.locks[0].read_text())) <= {(each["name"], each["version"]) for each in components.values()}
    assert all(each["licenses"] for each in components.values())
    [dependencies] = [each["dependsOn"] for each in document["dependencies"] if "dependsOn" in each]
    assert len(dependencies) == len(components) == len(packages(image))


# The jars of Spark's Kafka source.

BYTES = b"a jar"
RIGHT = Jar("org.example:tool_2.13:1.0", hashlib.sha256(BYTES).hexdigest())


def test_other_bytes_are_refused_by_name_with_both_checksums(tmp_path: Path) -> None:
    path = tmp_path / RIGHT.file
    path.write_bytes(b"not the jar")
    found = hashlib.sha256(b"not the jar").hexdigest()
    with pytest.raises(JarError, match=rf"tool_2.13-1.0.jar: .*{RIGHT.sha256}, found {found}.* Run again"):
        verify(RIGHT, path)


def test_without_java_nothing_is_left_and_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(JarError, match="install Java 17"):
        fetch(tmp_path / "jars")
    assert list((tmp_path / "jars").glob("*.jar")) == []


def test_downloads_of_an_interrupted_run_are_kept_for_the_next_one(tmp_path: Path) -> None:
    with suppress(JarError), downloading(tmp_path) as scratch:
        (scratch / "part").touch()
        raise JarError
    with downloading(tmp_path) as scratch:
        assert (scratch / "part").exists()
    assert not scratch.exists()
