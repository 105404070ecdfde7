"""The headers by which a request limits the time and demands the state of its answer."""

from streamstate.state.store import ENTRY_PATTERN

HEADER = "X-Deadline-Ms"
MIN_POSITION = "X-Min-Position"
MAX_STALENESS = "X-Max-Staleness"

MOST_MS = 999_999_999
"""The longest time of the header."""

ENTRIES_PATTERN = f"({ENTRY_PATTERN}(, ?{ENTRY_PATTERN})*)?"
"""The format of `X-Min-Position`: topic:partition=offset, separated by commas; empty for no demand.

* in place of a partition stands for all: up to this offset, or up to the end of each when the request arrives.
"""

ENTRIES = "topic:partition=offset, separated by commas; as the partition, * is each one of the topic"
