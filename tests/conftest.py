"""Fixtures for every test that needs a real Kafka or a real Spark; each starts once per run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from checkback.testing.pytest_plugin import (  # by name: an older installation has no entry point
    checkback_broker,
    checkback_check_service,
    checkback_page_engine,
    checkback_pipeline,
    checkback_topics,
)

__all__ = [
    "checkback_broker", "checkback_check_service", "checkback_page_engine", "checkback_pipeline",
    "checkback_topics",
]  # fmt: skip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkback.testing.broker import Broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the simulation run first: its one long file kept a process busy after all others."""
    items.sort(key=lambda item: "simulation" not in item.path.parts)


@pytest.fixture(scope="session")
def broker(checkback_broker: Broker) -> Broker:
    """One broker for the whole run; each test uses topic names of its own (`unique`)."""
    return checkback_broker


@pytest.fixture
def bootstrap_servers(broker: Broker) -> str:
    """The address of the run's broker."""
    return broker.bootstrap_servers


@pytest.fixture
def unique() -> str:
    """A prefix that no other test has, for topics, groups and ids."""
    return f"t{uuid.uuid4().hex[:10]}-"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark for the whole run, without jars: for micro-batches and folders."""
    from checkback.protocol.configuration import Settings
    from checkback.streaming.session import start_session
    from checkback.testing.pipeline_process import QUICK_SPARK

    session = start_session(
        Settings(master="local[2]", state_partitions=2, spark=dict(QUICK_SPARK)), []
    )
    context: Any = session.sparkContext
    # Code under test that ends "its" Spark in this process would end everybody's.
    context.stop = _refuse_to_stop
    yield session
    del context.stop
    session.stop()


def _refuse_to_stop() -> None:
    raise AssertionError("Every test of this process shares this Spark; only its fixture stops it.")
