"""`python -m bench client` measures what it says."""

from __future__ import annotations

from bench.__main__ import parse
from bench.client import JAR, measure_client
from tests.integration.client.playing import Checkback

from checkback.protocol.configuration import Settings


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
