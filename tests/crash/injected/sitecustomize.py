"""Every Python process of a pipeline under test reads this, because the folder is on PYTHONPATH.

So it reaches the driver, Spark's Python workers and their child processes, also on executors, and
the shipped code needs no hook.
"""

import importlib

importlib.import_module("crash_points").install()
