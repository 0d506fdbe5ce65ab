"""A broker of its own: it is killed, and one that other tests filled would take long to recover."""

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
