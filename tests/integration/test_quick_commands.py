"""Commands that people wait for answer at once, also before the pipeline ran.

Beside a running pipeline: test_order_and_idling.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.running import SPARK, Topics, printed_without

from checkback.deploy.settings import write_settings


@pytest.fixture
def config(bootstrap_servers: str, unique: str, tmp_path: Path) -> Path:
    """The configuration of a deployment whose pipeline never ran."""
    topics = Topics(bootstrap_servers, unique)
    settings = topics.settings(tmp_path / "checkpoint")
    topics.create(settings, [f"{unique}orders"], ["g"])
    path = tmp_path / "checkback.toml"
    write_settings(path, settings)
    return path


def test_the_doctor_warns_of_a_pipeline_that_never_ran_without_spark(config: Path) -> None:
    told = json.loads(printed_without(SPARK, "doctor", "--config", str(config), "--output", "json"))

    by_check = {one["check"]: one for one in told["checks"]}
    assert told["failed"] == 0
    assert by_check["checkpoint"]["result"] == "warning"
    assert by_check["checkpoint"]["says"] == "not started yet"
