"""What tests against a real broker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.sinking import World, make_world


@pytest.fixture
def world(bootstrap_servers: str, unique: str) -> Iterator[World]:
    made = make_world(bootstrap_servers, unique)
    yield made
    made.close()
