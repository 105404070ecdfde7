"""`streamstate profile draft`: a valid file from the records of a real topic, whoever produced them."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from devkit.cluster.local_cluster import LocalCluster
from devkit.topics import create
from streamstate.cli.main import app
from streamstate.keys import LONG, TEXT
from streamstate.profile.file import read

PARTITIONS = 4
EVENT = {"userId": 7, "device": {"name": "phone", "os": None}, "price": 2.5, "paid": True}
OTHERS = {"tags": ["a"], "timestamp": 1}
FIELDS = {
    "userId": "int",
    "device_name": "str",
    "price": "decimal(1)",
    "paid": "bool",
    "timestamp_": "int",
}


@pytest.fixture
def drafted(servers: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sends a record of each key, and drafts a profile over the topic; the result and the file."""
    monkeypatch.setenv("STREAMSTATE_KAFKA", servers.kafka.bootstrap)

    def run(topic: str, *keys: bytes | None, **settings: Any) -> tuple[Result, Path]:
        create(servers.kafka.bootstrap, {topic: {}}, PARTITIONS)
        out = Producer({"bootstrap.servers": servers.kafka.bootstrap, **settings})
        for key in keys:
            out.produce(topic, json.dumps(EVENT | OTHERS).encode(), key)
        out.flush()
        file = tmp_path / f"{topic}.yaml"
        return CliRunner().invoke(app, ["profile", "draft", topic, "--to", str(file)]), file

    return run


@pytest.mark.parametrize(
    ("topic", "codec", "partitioner", "key"),
    [
        ("long-keys", LONG, "murmur2", "long"),
        ("text-keys", TEXT, "crc32", "text"),
        ("no-keys", None, "murmur2", "value.userId"),
    ],
)
def test_a_drafted_profile_reads_its_topic(drafted: Any, topic: str, codec: Any, partitioner: str, key: str) -> None:
    numbers = range(300, 400)
    keys = [codec and codec.encode(number if codec is LONG else f"user-{number}") for number in numbers]
    placing = {"murmur2": "murmur2_random", "crc32": "consistent_random"}[partitioner]
    result, file = drafted(topic, *keys, partitioner=placing)
    assert result.exit_code == 0, result.output
    declared = read(file)
    assert (declared.key, declared.partitioner, declared.topic) == (key, partitioner, topic)
    types = {name: of.kind if of.kind != "decimal" else f"decimal({of.scale})" for name, of in declared.types.items()}
    assert FIELDS.items() <= types.items()
    assert declared.types["device_name"].path == "device.name"
    assert all(left in file.read_text() for left in ("tags, list", "device.os, always null"))
    checked = CliRunner().invoke(app, ["profile", "check", str(file), "--json"])
    assert checked.exit_code == 0, checked.output
    assert json.loads(checked.stdout)["dry_run"]["measures"]["events"] == 100


def test_a_file_stays_and_an_empty_topic_is_told(drafted: Any) -> None:
    empty, file = drafted("drafted-empty")
    assert (empty.exit_code, file.exists()) == (1, False)
    assert empty.stderr == "streamstate: drafted-empty has no records: send some, and draft then\n"
    file.write_text("mine")
    again, _ = drafted("drafted-empty", b"a")
    assert (again.exit_code, file.read_text()) == (1, "mine")
    assert "name another file by --to" in again.stderr
