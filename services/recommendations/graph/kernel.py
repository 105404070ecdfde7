"""The compilation of numeric kernels."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` to machine code at its first call; the code runs without the GIL.

    A thread that has run a kernel waits for the GIL. So a list is made by few kernels.

    The code is cached on disk: in `NUMBA_CACHE_DIR` if set, else beside the source. Indexes in a kernel are not
    checked: each kernel documents why its indexes stay inside.
    """
    return cast("Callable[P, R]", numba.njit(nogil=True, cache=True)(function))
