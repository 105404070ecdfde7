"""The jars of Spark's Kafka source."""

import hashlib
from pathlib import Path

import pytest

from streamstate.spark.jars import Jar, JarError, fetch, jars, parse, verify

BYTES = b"a jar"
RIGHT = Jar("org.example:tool_2.13:1.0", hashlib.sha256(BYTES).hexdigest())


def test_a_manifest_names_a_jar_a_line() -> None:
    assert parse("# why\norg.example:tool_2.13:1.0 ab\n\norg.example:other:2 cd\n") == [
        Jar("org.example:tool_2.13:1.0", "ab"),
        Jar("org.example:other:2", "cd"),
    ]


def test_the_kafka_source_is_four_jars_in_the_folder() -> None:
    paths = jars(Path("/somewhere"))
    assert len(paths) == 4
    assert Path("/somewhere/spark-sql-kafka-0-10_2.13-4.2.0.jar") in paths


def test_the_right_bytes_pass(tmp_path: Path) -> None:
    (tmp_path / RIGHT.file).write_bytes(BYTES)
    verify(RIGHT, tmp_path / RIGHT.file)


def test_other_bytes_are_refused_by_name_with_both_checksums(tmp_path: Path) -> None:
    path = tmp_path / RIGHT.file
    path.write_bytes(b"not the jar")
    found = hashlib.sha256(b"not the jar").hexdigest()
    with pytest.raises(JarError, match=rf"tool_2.13-1.0.jar: .*{RIGHT.sha256}, found {found}.* Run again"):
        verify(RIGHT, path)


def test_a_jar_that_did_not_come_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JarError, match="found None"):
        verify(RIGHT, tmp_path / RIGHT.file)


def test_without_java_nothing_is_left_and_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(JarError, match="install Java 17"):
        fetch(tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []
