"""The repair of Redis' append-only file."""

from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.child_process import free_port
from devkit.redis_server import Redis
from streamstate.state.operations import Put
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.store import Commit, OffsetAdvance


def move(server: Redis, start: int | None, end: int, size: int = 1) -> None:
    store = RedisStore(connect(server.url, 5.0), "app")
    claim = store.claim(0, "a:1", {"topic": 9})
    store.commit(Commit(claim, [OffsetAdvance("topic", start, end)], [Put("k", str(end) * size)]))


@pytest.fixture
def server(tmp_path: Path) -> Redis:
    return Redis(tmp_path / "redis", free_port())


def spoil(folder: Path, kept: float) -> tuple[Path, bytes]:
    """Overwrite a byte of the file; `kept` of its length (0 to 1) remains readable."""
    (file,) = (folder / "appendonlydir").glob("*.incr.aof")
    whole = file.read_bytes()
    at = whole.index(b"*", int(len(whole) * kept))
    file.write_bytes(whole[:at] + b"?" + whole[at + 1 :])
    return file, file.read_bytes()


def test_a_damaged_file_is_not_cut_short_without_a_word(
    server: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    server.start()
    try:
        move(server, None, 3)
        for end in range(4, 9):
            move(server, end - 1, end, size=100_000)
        server.stop()
        file, spoilt = spoil(folder, 0.1)
        monkeypatch.setenv("MOST_BYTES", "1000")
        with pytest.raises(DevkitError, match=r"would cut [0-9]+ bytes off"):
            server.start()
        assert file.read_bytes() == spoilt
    finally:
        server.kill()
