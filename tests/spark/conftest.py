"""One small Spark session for the micro-batch tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from checkback.protocol.configuration import Settings
from checkback.streaming.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = Settings(
        master="local[2]",
        state_partitions=2,
        spark={"spark.ui.enabled": "false", "spark.driver.memory": "1g"},
    )
    session = start_session(settings, [])
    yield session
    session.stop()
