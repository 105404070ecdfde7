"""The pages made from the source are up to date."""

from devkit import reference


def test_reference_page_is_what_the_source_says() -> None:
    assert reference.PATH.read_text() == reference.text(), "run make docs"
