"""Direct delivery from a broker that is killed in the middle of commits, and comes back."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.client.direct_owner import COMMIT, ROLLBACK
from tests.integration.client.direct_playing import Direct
from tests.integration.client.playing import Checkback

from checkback.deploy.broker import QUICK_START, EmbeddedBroker

KILLS = 2


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker", jvm_options=QUICK_START) as running:
        yield running


@pytest.fixture
def direct(mortal: EmbeddedBroker, unique: str, tmp_path: Path) -> Iterator[Direct]:
    checkback = Checkback(mortal.bootstrap_servers, unique)
    checkback.create_topics()
    folder = tmp_path / "database"
    folder.mkdir()
    made = Direct(checkback, folder)
    yield made
    made.close()


def sends(chance: random.Random) -> list[tuple[str, bool]]:
    """Draw how transactions end, and whether their sender forgets to say so."""
    return [
        (COMMIT if chance.random() < 0.8 else ROLLBACK, chance.random() < 0.1) for _ in range(30)
    ]


def test_a_broker_that_is_killed_in_mid_commit_loses_and_doubles_nothing(
    mortal: EmbeddedBroker, direct: Direct
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    owners = [direct.owner(lanes=1), direct.owner(lanes=2)]

    for _ in range(KILLS):
        direct.until_delivered(owners[0])
        for owner in owners:
            command: dict[str, Any] = {"sends": sends(chance), "spread_ms": 5}
            owner.command(**command, tell_commit=chance.randint(1, 3), brokers_die=True)
        owners[0].wait_for_commit()
        time.sleep(chance.uniform(0, 0.012))  # so that it dies before a commit, in it and after it
        mortal.kill()
        mortal.start()
        assert [owner.wait() for owner in owners] == ["done", "done"]

    direct.settle_all()
    outcomes = direct.audit()
    print(dict(outcomes))
    assert outcomes["delivered"] >= KILLS
