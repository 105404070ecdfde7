"""The garbage collector, in a process of its own."""

import subprocess
import sys

PROGRAM = """
import gc
from collections import deque
from streamstate.deployment import garbage

class Connection:
    def __init__(self):
        self.itself = self

modules = [Connection() for _ in range(200_000)]
garbage.look_at_new_objects_only()
opened, most = deque(maxlen=1_000), 0
for number in range(1_000_000):
    opened.append(Connection())
    if number % 1_000 == 0:
        most = max(most, len(gc.get_objects()))
print(most)
"""


def test_what_was_in_use_when_garbage_was_looked_for_goes_soon_after() -> None:
    """A thousand connections are open at any time; each is a cycle, and outlives the look at young objects."""
    most = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert int(most) < 25_000
