"""Two relays beside a job, killed and paused at each step of their loop, and the job at random.

docs/guarantees.md says what each of them leaves behind.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.crash.cases import RELAY, RELAY_POINTS, RELAYS, Case, random_relay_cases
from tests.crash.run import BROKER_PROPERTIES, CrashRun
from tests.integration.relay.relaying import relay_process
from tests.seeds import chosen_seed

from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.protocol.errors import FencedError

# Each crash takes a session of a relay, and half a minute where the job starts again.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]
TRANSACTIONS = 20_000
DELIVERED_SHARE_MIN = 0.1
"""Else the audit says nothing of what relays deliver. On a busy machine they deliver a fifth."""


@pytest.fixture(scope="module")
def run(
    mortal_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CrashRun]:
    folder = tmp_path_factory.mktemp("relays")
    with CrashRun(mortal_broker, folder, "relays-", relays=RELAYS) as running:
        yield running


@pytest.mark.parametrize("victim", ["relay", "paused relay"])
@pytest.mark.parametrize("point", RELAY_POINTS)
def test_a_relay_that_dies_or_stands_still_at_a_step_is_replaced(
    run: CrashRun, point: str, victim: str
) -> None:
    print(run.crash(Case(f"{victim}-{point}", RELAY + point, (victim,), 0, records=3)))


@pytest.mark.parametrize("after_ms", [0, 2, 5])
def test_a_broker_that_dies_in_mid_commit_is_waited_for(run: CrashRun, after_ms: int) -> None:
    case = Case(f"broker-{after_ms}", f"{RELAY}mid-commit", ("broker",), 1, after_ms=after_ms)
    print(run.crash(case))


def test_of_two_relays_with_one_number_the_older_one_ends(run: CrashRun, tmp_path: Path) -> None:
    run.start_relays()
    older = run.relay_processes[0]
    with relay_process(run.settings, tmp_path) as twin:
        assert older.wait(60) == FencedError.exit_code
        assert "same number" in older.errors()
        twin.kill()
    older.start()
    run.wait_until_final(set(run.application.snapshot()[0]))
    run.require_sound()


def test_relays_that_come_and_go_move_partitions_amid_transactions(
    run: CrashRun, tmp_path: Path
) -> None:
    run.start_relays()
    for number in (2, 3):
        with relay_process(run.settings, tmp_path / f"{number}", number) as another:
            another.wait_for("started")
            time.sleep(3)
            another.terminate()
    run.wait_until_final(set(run.application.snapshot()[0]))
    run.require_sound()


def test_after_all_these_crashes_every_committed_half_is_final_once(run: CrashRun) -> None:
    run.finish()
    print(run.summary())


@pytest.mark.timeout(3_600)
def test_twenty_thousand_transactions_survive_kills_of_relays_and_job(tmp_path: Path) -> None:
    """None is lost, doubled or wrong, and keys keep their order with a twentieth passed on."""
    seed = chosen_seed()
    with (
        EmbeddedBroker(
            tmp_path / "broker", properties=BROKER_PROPERTIES, jvm_options=QUICK_START
        ) as broker,
        CrashRun(broker, tmp_path, "kills-", seed, relays=RELAYS, per_second=60) as run,
    ):
        cases, kills = random_relay_cases(seed), count()
        while run.application.sent < TRANSACTIONS:
            print(next(kills), run.crash(next(cases)), flush=True)
        run.finish()
        print(f"seed {seed}: {next(kills)} crashes; {run.summary()}")
        decided = run.decided()
        assert decided["delivered"] > DELIVERED_SHARE_MIN * decided.total()
