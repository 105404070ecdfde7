"""Reading files in the LFM-1b format."""

import json
import re
import struct
from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.feed import Feed
from devkit.lfm import Files


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
    events = list(Files(folder).events())
    assert events[0] == (
        struct.pack(">q", 7),
        b'{"userId":7,"artistId":1,"albumId":2,"trackId":3,"timestamp":1331060664000}',
    )
    assert [struct.unpack(">q", key)[0] for key, _ in events] == [7, 9, 8]


def test_names_keep_quotes_and_odd_characters(folder: Path) -> None:
    names = [(topic, key, json.loads(value)) for topic, key, value in Files(folder).names()]
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
        Files(folder).check()
    skipping = Files(folder, skip_malformed=True)
    skipping.check()
    assert len(list(skipping.events())) == 3
    assert re.search(r"skipped 1 malformed lines, the first is .*LFM-1b_LEs-a-x\.txt, line 3: ", skipping.skipped)


def test_a_feed_goes_on_after_a_correction(folder: Path, tmp_path: Path) -> None:
    file, marker = folder / "LFM-1b_LEs-a-x.txt", tmp_path / "fed"
    file.write_bytes(file.read_bytes() + b"7\t1\n")
    with pytest.raises(DevkitError, match="nothing was sent: correct the line"):
        Feed("127.0.0.1:1", marker, Files(folder)).load(print)
    assert not marker.exists()


@pytest.mark.parametrize("line", [b"1", b"x\tname", b"1\t\xff", b"1\tname\t2"])
def test_a_malformed_name_is_named_by_file_and_line(folder: Path, line: bytes) -> None:
    (folder / "LFM-1b_artists-x.txt").write_bytes(line)
    with pytest.raises(DevkitError, match=r"LFM-1b_artists-x\.txt, line 1: "):
        list(Files(folder).names())


@pytest.mark.parametrize("kind", ["artists", "albums", "tracks"])
def test_a_missing_file_is_named(folder: Path, kind: str) -> None:
    (folder / f"LFM-1b_{kind}-x.txt").unlink()
    with pytest.raises(DevkitError, match=rf"no file LFM-1b_{kind}\*\.txt in "):
        list(Files(folder).names())


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DevkitError, match="no file LFM-1b_LEs"):
        list(Files(tmp_path / "elsewhere").events())
