"""A Checkback of each test's own on the run's broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.client.playing import Checkback, Scripted


@pytest.fixture
def checkback(bootstrap_servers: str, unique: str) -> Iterator[Checkback]:
    made = Checkback(bootstrap_servers, unique)
    made.create_topics()
    yield made
    for producer in made.started:
        producer.shutdown()


@pytest.fixture
def listener() -> Scripted:
    return Scripted()
