"""An application process loads the client and nothing of the pipeline."""

from __future__ import annotations

import subprocess
import sys

PIPELINE = (
    "pyspark",
    "delta",
    "confluent_kafka",
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


def test_the_client_loads_nothing_of_the_pipeline() -> None:
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]"
