"""A run's figures as a row of the table, and a measure with its bound."""

from __future__ import annotations

import pytest

from checkback.bench.result_document import RUN_HEADINGS, measure_rows, run_rows
from checkback.bench.runs import BenchFindings, Run


def run() -> Run:
    cpu = {"driver": 1.25, "jvm": 20.04, "python_worker": 3.0, "broker": 7.0}
    rss = {"jvm": 1_024.4, "python_worker": 200.0, "broker": 700.0}
    return Run("job", 1, 79_070.4, 1_234.5, cpu, rss, 12.34, 8_901.0, [])


def test_a_run_is_a_row_with_a_dash_for_what_did_not_run() -> None:
    [row] = run_rows(BenchFindings([], [run()]))

    assert dict(zip(RUN_HEADINGS, row, strict=True)) == {
        "run": "job 1",
        "tx/s": "79,070",
        "batch ms": "1,234",
        "CPU µs/tx: driver": "1.2",
        "jvm": "20.0",
        "python": "200",
        "sink": "-",
        "broker": "7.0",
        "MiB: jvm": "1024",
        "checkpoint B/tx": "12.3",
        "work µs": "8,901",
    }


@pytest.mark.parametrize(
    ("unit", "at_least", "at_most", "bound"),
    [("ratio", 0.5, None, "≥ 0.5"), ("ms", None, 250, "≤ 250 ms")],
)
def test_a_measure_is_a_row_with_its_bound(
    unit: str, at_least: float | None, at_most: float | None, bound: str
) -> None:
    measure = {
        "name": "batch", "value": 1.5, "min": 1, "max": 2, "unit": unit,
        "at_least": at_least, "at_most": at_most, "result": "ok",
    }  # fmt: skip

    assert measure_rows({"measures": [measure]}) == [("batch", "1.5", "1..2", bound, "ok")]
