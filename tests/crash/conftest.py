"""A separate broker: the tests kill it, and a broker filled by other tests would recover slowly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.crash.run import BROKER_PROPERTIES

from checkback.deploy.broker import QUICK_START, EmbeddedBroker


@pytest.fixture(scope="module")
def mortal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("mortal-broker")
    with EmbeddedBroker(folder, properties=BROKER_PROPERTIES, jvm_options=QUICK_START) as running:
        yield running
