"""Fixtures for tests that need a real Kafka or a real Spark; each starts once per process.

With ``--one-broker`` the processes of pytest-xdist share the broker of the process that started
them: topics have prefixes of their own, and four brokers more would each compile the same code.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from checkback.deploy.broker_files import BrokerRecord
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

    from checkback.testing.broker import Broker, Cluster


if settings.get_current_profile_name() == "default":
    # A busy machine takes longer than Hypothesis allows, and that is no fault of what is tested.
    settings.register_profile(
        "checkback", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("checkback")

SHARED = pytest.StashKey[tuple["Broker", TemporaryDirectory[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--one-broker", action="store_true", help="processes share one Kafka broker")
    parser.addoption("--brokers", type=int, default=1, help="how many brokers each process has")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_configure_node(node: Any) -> None:
    """Name the shared broker to a process of pytest-xdist; the first one has it started."""
    config = node.config
    if not config.getoption("--one-broker"):
        return
    if SHARED not in config.stash:
        from checkback.testing.broker import QUICK_START, Broker

        folder = TemporaryDirectory(prefix="checkback-broker-")
        broker = Broker(Path(folder.name), jvm_options=QUICK_START)
        broker.start()
        config.stash[SHARED] = broker, folder
    broker, _ = config.stash[SHARED]
    node.workerinput["broker"] = broker.pid, broker.bootstrap_servers


def pytest_unconfigure(config: pytest.Config) -> None:
    if SHARED in config.stash:
        broker, folder = config.stash[SHARED]
        broker.kill()
        folder.cleanup()


LONG = (
    "simulation", "test_operations.py", "test_checkpoint_tools.py", "test_relay_switch.py",
    "test_rebuild.py", "test_conformance.py", "test_relayed_pipeline.py",
    "test_order_and_idling.py",
    "test_demo.py", "test_signals.py", "test_access_control.py", "test_crash_points.py",
    "test_fuzz.py", "test_metrics.py", "test_console.py", "test_unread.py", "test_grants.py",
    "test_broker.py", "test_ledger.py", "test_console_browser.py", "test_object_store.py",
)  # fmt: skip
"""Folders and files that take a process longest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long files run first: one of them at the end kept a process busy after all others."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: min(places.get(one, len(LONG)) for one in item.path.parts))


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker | BrokerRecord | Cluster]:
    """The run's broker, or its cluster; each test uses topic names of its own (`unique`)."""
    shared = getattr(request.config, "workerinput", {}).get("broker")
    count: Any = request.config.getoption("--brokers")
    if shared is not None:
        yield BrokerRecord(*shared)
    elif count == 1:
        yield request.getfixturevalue("checkback_broker")
    else:
        from checkback.testing.broker import Cluster

        with Cluster(tmp_path_factory.mktemp("cluster"), count) as running:
            yield running


@pytest.fixture
def bootstrap_servers(broker: Broker | BrokerRecord | Cluster) -> str:
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
    from checkback.streaming.spark.session import start_session
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
