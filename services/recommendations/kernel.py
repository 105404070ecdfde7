"""How numeric kernels are compiled, in one place."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` to machine code at its first call; it then runs without the GIL.

    The code is kept on disk: in `NUMBA_CACHE_DIR` when that is set, else beside the source. Indexes in a
    kernel are not checked: each kernel says why its own stay inside.
    """
    return cast("Callable[P, R]", numba.njit(nogil=True, cache=True)(function))
