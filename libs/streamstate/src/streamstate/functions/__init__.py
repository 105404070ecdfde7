"""Services in functions: a fold and its views as functions over declared state.

A `State` declares the state of a key, or of a partition, once. A fold is a function of a record and states, whose
writes are recorded; a view is a function of a key and a state.
"""

from streamstate.functions.cells import Counters, Least, Most, Ranking, Recent, Sum, Text
from streamstate.functions.fold import fold, fold_pairs
from streamstate.functions.records import Output, outputs, source
from streamstate.functions.state import State
from streamstate.functions.view import view
from streamstate.functions.window_cells import HoppingWindows, Sessions

__all__ = [
    "Counters",
    "HoppingWindows",
    "Least",
    "Most",
    "Output",
    "Ranking",
    "Recent",
    "Sessions",
    "State",
    "Sum",
    "Text",
    "fold",
    "fold_pairs",
    "outputs",
    "source",
    "view",
]
