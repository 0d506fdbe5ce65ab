"""From measured cost to machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkback.bench.repository.sizing import BEGIN, END, Cost, cost_of, limit, with_block

COST = Cost(
    {"jvm": 20.0, "python_worker": 5.0, "sink": 15.0, "broker": 10.0},
    {"half": 1_300.0, "op": 200.0, "final": 1_200.0, "settled": 1.0},
    30.0,
    "here",
)
DOCUMENT = Path(__file__).parents[3] / "docs" / "operating" / "sizing.md"


def result(*sink_us: float) -> dict[str, Any]:
    runs = [
        {
            "kind": "job",
            "cpu_us_per_transaction": {"jvm": 20.0, "sink": us, "broker": 9.0},
            "checkpoint_bytes_per_transaction": 30.0,
            "facts": {"stored_bytes_per_transaction": {"half": 1_300.0}},
        }
        for us in sink_us
    ]
    return {
        "command": "pipeline",
        "options": {"transactions": 1_000, "body_bytes": 1_024},
        "machine": {"cores": 2, "cpu": "X"},
        "runs": [*runs, {"kind": "stateless", "cpu_us_per_transaction": {"jvm": 1.0}}],
    }


def test_the_cost_is_the_median_of_the_jobs_runs() -> None:
    cost = cost_of([result(10.0, 30.0, 12.0)])

    assert cost.cpu_us == {"jvm": 20.0, "sink": 12.0, "broker": 9.0}
    assert cost.job_us == 32.0
    assert "3 runs, each of 1,000 transactions" in cost.measured


def test_without_a_run_there_is_no_cost() -> None:
    with pytest.raises(ValueError, match="no run"):
        cost_of([{"command": "latency", "runs": []}])


def test_a_half_is_read_twice_and_a_final_message_once() -> None:
    assert COST.written_bytes == 2_701
    assert COST.read_bytes == 2 * 1_300 + 200 + 1_200


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (1_000, "nothing"),
        (300_000, "cores: executors with 18"),
        (300_000, "link: 2 brokers"),
        (1_000_000, "link: 5 brokers"),
    ],
)
def test_what_limits_depends_on_the_rate(rate: float, words: str) -> None:
    assert words in limit(COST, rate)


def test_the_block_replaces_what_stands_between_the_markers() -> None:
    document = with_block(f"before {BEGIN} old {END} after", [result(10.0)])

    assert document.startswith("before ")
    assert document.endswith(" after")
    assert " old " not in document
    assert with_block(document, [result(10.0)]) == document


def test_a_document_without_markers_is_not_touched() -> None:
    with pytest.raises(ValueError, match="has no"):
        with_block("nothing", [result(1.0)])


def test_the_project_s_document_has_the_markers() -> None:
    text = DOCUMENT.read_text("utf-8")

    assert 0 <= text.index(BEGIN) < text.index(END)
