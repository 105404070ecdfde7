"""Services in functions: a fold and its views as functions over declared state.

A `State` declares the state of a key, or of a partition, once. A fold is a function of a record and states, whose
writes are recorded; a view is a function of a key and a state.
"""

from streamstate.functions.cells import Counters, Least, Most, Ranking, Recent, Sum, Text
from streamstate.functions.fold import fold, fold_pairs
from streamstate.functions.key_sets import Keys, KeySet, key_range
from streamstate.functions.records import Output, outputs, source
from streamstate.functions.state import State
from streamstate.functions.timelines import History, HoppingWindows, Sessions
from streamstate.functions.view import view
from streamstate.operators.interval_join import Pair
from streamstate.operators.pages import Page
from streamstate.operators.tables import row_view, table

__all__ = [
    "Counters",
    "History",
    "HoppingWindows",
    "KeySet",
    "Keys",
    "Least",
    "Most",
    "Output",
    "Page",
    "Pair",
    "Ranking",
    "Recent",
    "Sessions",
    "State",
    "Sum",
    "Text",
    "fold",
    "fold_pairs",
    "key_range",
    "outputs",
    "row_view",
    "source",
    "table",
    "view",
]
