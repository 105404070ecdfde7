"""Reading files in the LFM-1b format."""

import json
import struct
from pathlib import Path

import pytest

from devkit import DevkitError, lfm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "LEs-a": "7\t1\t2\t3\t1331060664\n9\t1\t2\t4\t1331060600\n",
        "LEs-b": "8\t1\t2\t3\t1331060700",
        "artists": '1\tSigur "Rós\n',
        "albums": "2\tA\u2028B \r C'\t1\n",
        "tracks": '3\t"\t1\r\n4\t\t1\n',
    }
    for kind, text in files.items():
        (tmp_path / f"LFM-1b_{kind}-x.txt").write_bytes(text.encode())
    return tmp_path


def test_events_of_all_files_come_in_file_order_with_ms(folder: Path) -> None:
    events = list(lfm.events(folder))
    assert events[0] == (
        struct.pack(">q", 7),
        b'{"userId":7,"artistId":1,"albumId":2,"trackId":3,"timestamp":1331060664000}',
    )
    assert [struct.unpack(">q", key)[0] for key, _ in events] == [7, 9, 8]


def test_names_keep_quotes_and_odd_characters(folder: Path) -> None:
    names = [(topic, key, json.loads(value)) for topic, key, value in lfm.names(folder)]
    assert names == [
        ("artists", struct.pack(">q", 1), {"id": 1, "name": 'Sigur "Rós'}),
        ("albums", struct.pack(">q", 2), {"id": 2, "name": "A\u2028B \r C'"}),
        ("tracks", struct.pack(">q", 3), {"id": 3, "name": '"'}),
        ("tracks", struct.pack(">q", 4), {"id": 4, "name": ""}),
    ]


@pytest.mark.parametrize(
    "line", [b"7\t1\t2\t3", b"7\t1\t2\tx\t5", b"7\t1\t2\t\t5", b"", b"9223372036854775808\t1\t2\t3\t4"]
)
def test_a_malformed_event_is_named_by_file_and_line(folder: Path, line: bytes) -> None:
    file = folder / "LFM-1b_LEs-a-x.txt"
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(DevkitError, match=r"LFM-1b_LEs-a-x\.txt, line 3: .*correct the line"):
        list(lfm.events(folder))


@pytest.mark.parametrize("line", [b"1", b"x\tname", b"1\t\xff", b"1\tname\t2"])
def test_a_malformed_name_is_named_by_file_and_line(folder: Path, line: bytes) -> None:
    (folder / "LFM-1b_artists-x.txt").write_bytes(line)
    with pytest.raises(DevkitError, match=r"LFM-1b_artists-x\.txt, line 1: "):
        list(lfm.names(folder))


@pytest.mark.parametrize("kind", ["artists", "albums", "tracks"])
def test_a_missing_file_is_named(folder: Path, kind: str) -> None:
    (folder / f"LFM-1b_{kind}-x.txt").unlink()
    with pytest.raises(DevkitError, match=rf"no file LFM-1b_{kind}\*\.txt in "):
        list(lfm.names(folder))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DevkitError, match="no file LFM-1b_LEs"):
        list(lfm.events(tmp_path / "elsewhere"))
