"""Fixtures for every test that needs a real Kafka or a real Spark; each starts once per run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkback.deploy.broker import EmbeddedBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One broker for the whole run: tests keep apart by their topics' names (`unique`)."""
    from checkback.deploy.broker import (
        QUICK_START,
        EmbeddedBroker,
    )  # unit tests need no Kafka client

    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), jvm_options=QUICK_START) as running:
        yield running


@pytest.fixture
def bootstrap_servers(broker: EmbeddedBroker) -> str:
    """Where the run's broker is."""
    return broker.bootstrap_servers


@pytest.fixture
def unique() -> str:
    """A prefix that no other test has, for topics, groups and ids."""
    return f"t{uuid.uuid4().hex[:10]}-"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark for the whole run, without jars: for micro-batches and folders."""
    from tests.integration.running import QUICK_SPARK

    from checkback.protocol.configuration import Settings
    from checkback.streaming.session import start_session

    small = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", **QUICK_SPARK}
    session = start_session(Settings(master="local[2]", state_partitions=2, spark=small), [])
    yield session
    session.stop()
