"""A separate broker: the tests kill it, and a broker filled by other tests would recover slowly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.crash.run import BROKER_PROPERTIES

from checkback.deploy.broker import QUICK_START, EmbeddedBroker, EmbeddedCluster


@pytest.fixture(scope="module")
def mortal_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    """A broker, or the first of a cluster: clients learn from it where the others are."""
    folder = tmp_path_factory.mktemp("mortal-broker")
    count: Any = request.config.getoption("--brokers")
    if count > 1:
        with EmbeddedCluster(folder, count, BROKER_PROPERTIES) as cluster:
            yield cluster.broker(1)
        return
    with EmbeddedBroker(folder, properties=BROKER_PROPERTIES, jvm_options=QUICK_START) as running:
        yield running
