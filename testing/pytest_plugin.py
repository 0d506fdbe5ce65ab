"""Pytest fixtures, available as soon as the package is installed (entry point ``pytest11``).

This module imports only pytest. A fixture imports what it needs when a test uses it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from checkback.testing import Broker, FakeCheckService, PageEngine, PipelineProcess, Topics


@pytest.fixture(scope="session")
def checkback_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One Kafka broker for the whole run; each test uses topic names of its own."""
    from checkback.testing import Broker
    from checkback.testing.broker import QUICK_START

    folder = tmp_path_factory.mktemp("checkback-broker")
    with Broker(folder, jvm_options=QUICK_START) as running:
        yield running


@pytest.fixture
def checkback_topics(checkback_broker: Broker) -> Topics:
    """Checkback's topics under a prefix that no other test has; the test creates them."""
    from checkback.testing import Topics

    return Topics(checkback_broker.bootstrap_servers, f"t{uuid.uuid4().hex[:10]}-")


@pytest.fixture
def checkback_pipeline(
    checkback_topics: Topics, tmp_path: Path
) -> Iterator[Callable[..., PipelineProcess]]:
    """Yield a function that starts the pipeline over `checkback_topics`; it ends with the test.

    The function takes changed settings by name and returns when the pipeline runs. Create the
    topics before you call it.
    """
    from checkback.testing import PipelineProcess

    folder = tmp_path / "checkback"
    with ExitStack() as ending:

        def start(**changes: Any) -> PipelineProcess:
            settings = checkback_topics.settings(folder / "checkpoint", **changes)
            pipeline = ending.enter_context(PipelineProcess(settings, folder))
            pipeline.wait_for("started")
            return pipeline

        yield start


@pytest.fixture
def checkback_page_engine() -> PageEngine:
    """Return the rules in memory, with default settings and a clock that the test sets."""
    from checkback.testing import PageEngine

    return PageEngine()


@pytest.fixture
def checkback_check_service() -> type[FakeCheckService]:
    """Return the class of the fake check service; create one with the listener under test."""
    from checkback.testing import FakeCheckService

    return FakeCheckService
