"""A job whose JVM ended names the JVM's output, which alone says why, and keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from checkback.protocol.errors import OperationalError
from checkback.streaming.job.query_failure import jvm_watched
from checkback.streaming.spark.driver_jvm import log_path


@pytest.mark.parametrize("raised", [Py4JNetworkError(), ConnectionRefusedError()])
def test_the_output_of_a_jvm_that_ended_is_named(raised: Exception, tmp_path: Path) -> None:
    log = tmp_path / "spark.log"

    with pytest.raises(OperationalError) as told, jvm_watched(log):
        raise raised

    assert told.value.fields["log_file"] == str(log)
    assert str(log) in told.value.remedy


def test_on_standard_error_it_has_no_name() -> None:
    with pytest.raises(OperationalError) as told, jvm_watched(log_path("-")):
        raise Py4JNetworkError

    assert "log_file" not in told.value.fields
