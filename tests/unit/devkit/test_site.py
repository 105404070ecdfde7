"""The documents as they are given to MkDocs."""

from pathlib import Path

import pytest

from devkit import site


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site") / "pages"
    site.write(folder)
    return folder


def test_every_document_is_there_with_all_that_it_links_to(folder: Path) -> None:
    for page in site.pages():
        written = folder / page
        links = [path for path, _ in site.LINK.findall(written.read_text()) if path]
        assert [link for link in links if not (written.parent / link).exists()] == []


def test_a_source_file_and_a_folder_are_pages_of_their_own(folder: Path) -> None:
    text = (folder / "docs" / "architecture.md").read_text()
    assert "../libs/streamstate/src/streamstate/state/redis.py.md)" in text
    source = Path("libs/streamstate/src/streamstate/state/redis.py").read_text()
    assert source in (folder / "libs/streamstate/src/streamstate/state/redis.py.md").read_text()
    assert "](services/metrics/README.md)" in (folder / "README.md").read_text()


def test_nothing_is_left_of_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "old.md").touch()
    site.write(tmp_path / "pages")
    assert not (tmp_path / "pages" / "old.md").exists()
