"""`python -m bench client` measures what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.__main__ import parse
from bench.client import JAR, measure_client
from bench.sessions import KINDS
from tests.integration.client.playing import Checkback

from checkback.protocol.configuration import Settings

pytestmark = pytest.mark.nightly  # of the bench alone


def test_all_kinds_are_measured_in_turn(checkback: Checkback) -> None:
    options = parse(["client", "--threads=2", "--transactions=100", "--rounds=1", "--in-flight=4"])
    settings = Settings(
        bootstrap_servers=checkback.bootstrap_servers, topic_prefix=checkback.prefix
    )

    result = measure_client(options, settings)

    counts = {run["kind"]: run["transactions"] for run in result["runs"]}
    java = {"java": 100} if JAR.exists() else {}
    assert counts == {"floor": 100, "client": 100, "asyncio": 100, **java}
    assert [ratio["measure"] for ratio in result["ratios"]] == ["client_to_floor", "time_to_floor"]
    warm_up = 2 * 5 + 4 * 2  # a tenth of what each thread or coroutine sends
    sent = 200 + warm_up + 200 * len(java)  # Java's warm-up is as long as its run
    assert len(checkback.halves(sent)) == sent


def test_messages_in_database_transactions_are_measured(
    checkback: Checkback, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'bench.db'}"
    given = [f"--database={url}", "--threads=1", "--transactions=20", "--rounds=1"]
    settings = Settings(
        bootstrap_servers=checkback.bootstrap_servers, topic_prefix=checkback.prefix
    )

    result = measure_client(parse(["client", *given]), settings)

    assert [run["kind"] for run in result["runs"]] == list(KINDS)
    assert {ratio["measure"] for ratio in result["ratios"]} >= {"ten_to_one", "added_ms"}
    assert len(checkback.halves(12 * 22)) == 12 * 22
