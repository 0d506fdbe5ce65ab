"""The sink's task knows its state partition from Spark."""

from __future__ import annotations

import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import OperationalError
from checkback.sinks.settings import SinkSettings
from checkback.streaming.batch.sink_task import sink_function


def test_outside_of_a_spark_task_nothing_is_written() -> None:
    write = sink_function(SinkSettings(Settings(), "q", {}, 1_000), 0, 0)

    with pytest.raises(OperationalError, match="inside Spark tasks only"):
        next(write(iter(())))
