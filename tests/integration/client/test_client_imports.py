"""An application process loads the client and nothing of the pipeline."""

from __future__ import annotations

import subprocess
import sys

PIPELINE = (
    "pyspark",
    "delta",
    "kafka",
    "confluent_kafka.admin",
    "numpy",
    "pandas",
    "click",
    "pydantic",
    "sqlalchemy",
)
PROGRAM = f"""
import sys
import checkback.client
print([name for name in {PIPELINE} if name in sys.modules])
"""


def test_the_client_is_imported_in_less_than_300_ms() -> None:
    """Processor time and not the clock's: what else runs on the machine is not the client's."""
    program = "import time; import checkback.client; print(time.process_time())"
    command = [sys.executable, "-c", program]
    times = [float(subprocess.check_output(command)) for _ in range(3)]
    assert min(times) < 0.3


def test_the_client_loads_nothing_of_the_pipeline() -> None:
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]"
