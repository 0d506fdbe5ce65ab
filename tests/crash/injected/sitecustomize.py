"""Read by every Python process of a pipeline under test, because this folder is on PYTHONPATH.

That reaches the driver, Spark's Python workers and whatever process these start, on executors too,
and leaves no hook in what is shipped.
"""

import importlib

importlib.import_module("crash_points").install()
