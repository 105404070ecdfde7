"""The parent of Spark's Python workers: it forks one for each slot.

Four departures from PySpark's own daemon:

- archives leave `sys.path`. A worker invalidates the import caches before each task, and on Python 3.11 that reads the
  directories of pyspark.zip, py4j and the Spark jar again, every time: half a second of CPU time. PySpark is imported
  from site-packages.
- what every worker needs is imported here, once, before the forks: another half a second.
- the imported modules leave the garbage collector. A worker collects after each task, and walking all that pandas and
  PySpark have made takes 50 ms.
- an idle worker, whose JVM has ended, prints no traceback of its broken pipe.
"""

import gc
import sys
from typing import Any

_ARCHIVES = (".zip", ".jar")
sys.path[:] = [path for path in sys.path if not path.endswith(_ARCHIVES)]
for path in [path for path in sys.path_importer_cache if path.endswith(_ARCHIVES)]:
    del sys.path_importer_cache[path]

import pandas  # noqa: E402, F401
import pyarrow.compute  # noqa: E402, F401
import pyspark.worker  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

import streamstate.spark.task  # noqa: E402, F401


def _print(text: str, **options: Any) -> None:
    if BrokenPipeError.__name__ not in text:
        print(text, **options)


vars(daemon)["print"] = _print

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()
