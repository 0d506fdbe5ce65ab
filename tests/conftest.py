"""Fixtures for every test that needs a real Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from checkback.deploy.broker import EmbeddedBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One broker for the whole run: tests keep apart by their topics' names (`unique`)."""
    from checkback.deploy.broker import EmbeddedBroker  # unit tests need no Kafka client

    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def bootstrap_servers(broker: EmbeddedBroker) -> str:
    """Where the run's broker is."""
    return broker.bootstrap_servers


@pytest.fixture
def unique() -> str:
    """A prefix that no other test has, for topics, groups and ids."""
    return f"t{uuid.uuid4().hex[:10]}-"
