"""A stand-in for the package that signs tokens with the credentials of AWS."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MODULE = "aws_msk_iam_sasl_signer"


@contextmanager
def installed(source: str, folder: Path) -> Iterator[None]:
    """The package, written to `folder`, can be imported in the body, and not afterwards."""
    (folder / f"{MODULE}.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        try:
            yield
        finally:
            sys.modules.pop(MODULE, None)
