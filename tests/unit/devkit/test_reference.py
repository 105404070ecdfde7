"""The pages made from the source are up to date."""

from types import ModuleType

import pytest

from devkit import command_reference, data_model, reference, rights


@pytest.mark.parametrize("page", [reference, command_reference, data_model, rights], ids=lambda page: page.__name__)
def test_a_page_is_what_the_source_says(page: ModuleType) -> None:
    assert page.PATH.read_text() == page.text(), "run make docs"
