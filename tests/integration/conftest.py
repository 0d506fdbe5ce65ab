"""What tests against a real broker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.running import Topics
from tests.integration.shared_jvm import SharedJvm
from tests.integration.sinking import World, make_world


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


@pytest.fixture(scope="session")
def shared_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedJvm]:
    made = SharedJvm(tmp_path_factory.mktemp("shared-jvm") / "spark.log")
    yield made
    made.end()


@pytest.fixture
def world(bootstrap_servers: str, unique: str) -> Iterator[World]:
    made = make_world(bootstrap_servers, unique)
    yield made
    made.close()


# By day test_forwarding.py compares the two, and tests/simulation has Python's.
@pytest.fixture(params=["compiled", pytest.param("python", marks=pytest.mark.nightly)])
def either(bootstrap_servers: str, unique: str, request: pytest.FixtureRequest) -> Iterator[World]:
    """A world whose sink forwards by its compiled part, and one whose sink does not."""
    made = make_world(bootstrap_servers, unique, native_sink=request.param == "compiled")
    yield made
    made.close()
