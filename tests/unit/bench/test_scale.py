"""One executor beside two: what is the same for both, and what is divided."""

from __future__ import annotations

from checkback.bench.repository.scale import ratios_of, settings_on
from checkback.bench.runs import Run
from checkback.protocol.configuration import Settings


def run(executors: int, number: int, per_s: float) -> Run:
    return Run(f"executors-{executors}", number, per_s, 0, {}, {}, 0, 0, [])


def test_two_executors_are_compared_with_one_of_the_same_repetition() -> None:
    assert ratios_of([run(1, 0, 10), run(2, 0, 15), run(1, 1, 5), run(2, 1, 10)]) == [1.5, 2.0]


def test_every_executor_has_one_core_and_the_state_two_partitions() -> None:
    settings = Settings(state_partitions=7, spark={"spark.ui.enabled": "false"})

    found = settings_on("spark://127.0.0.1:1", settings, small=False)

    assert (found.master, found.state_partitions) == ("spark://127.0.0.1:1", 2)
    assert found.spark["spark.executor.cores"] == "1"
    assert found.spark["spark.ui.enabled"] == "false"
    assert "spark.executor.extraJavaOptions" not in found.spark  # a measured JVM is as users' are


def test_the_executors_of_a_smoke_run_start_quickly() -> None:
    found = settings_on("spark://127.0.0.1:1", Settings(), small=True)

    assert "TieredStopAtLevel" in found.spark["spark.executor.extraJavaOptions"]
