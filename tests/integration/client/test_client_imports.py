"""An application process loads the client and nothing of the pipeline."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.programs import output_of

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


@pytest.mark.nightly  # by day the next one names what it must not load
def test_the_client_is_imported_in_less_than_four_times_what_it_needs_takes() -> None:
    """Some 300 ms on a slow machine, of which Python, asyncio and librdkafka take 130.

    Processor time and not the clock's: what else runs on the machine is not the client's.
    """
    client, needed = map(import_s, ("checkback.client", "asyncio, confluent_kafka"))
    assert client < 4 * needed


def import_s(modules: str) -> float:
    """Return the least processor time, in seconds, of three interpreters that import these."""
    program = f"import time; import {modules}; print(time.process_time())"
    command = [sys.executable, "-c", program]
    return min(float(subprocess.check_output(command)) for _ in range(3))


def test_the_client_loads_nothing_of_the_pipeline() -> None:
    assert output_of(PROGRAM).strip() == "[]"
