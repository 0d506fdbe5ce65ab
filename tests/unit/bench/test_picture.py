"""Pictures of a bench's result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkback.bench.pipeline import possible_comparisons
from checkback.bench.repository.picture import WORDS, draw, rate_shares, require_drawing
from checkback.protocol.errors import UsageError


def run(kind: str, number: int, per_s: float) -> dict[str, Any]:
    batches = [
        {"started_ms": 1_000 * at, "took_ms": 900, "rows": rows}
        for at, rows in enumerate((50_000, 60_000, 60_000, 3))
    ]
    return {"kind": kind, "number": number, "transactions_per_s": per_s, "batches": batches}


RESULT: dict[str, Any] = {
    "command": "pipeline",
    "runs": [
        run("stateless", 0, 90.0),
        run("stateless", 1, 110.0),
        run("stateless", 2, 100.0),
        run("job", 0, 80.0),
        run("job", 1, 60.0),
        run("job", 2, 100.0),
        {"kind": "job", "number": 3, "batches": []},
    ],
}


def test_rates_are_shares_of_the_jobs_median_with_their_spread() -> None:
    shares = rate_shares([one for one in RESULT["runs"] if one["batches"]])

    assert shares["job"] == (60 / 80, 1.0, 100 / 80)
    assert shares["stateless"] == (90 / 80, 100 / 80, 110 / 80)


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_a_picture_is_drawn(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"picture{ending}"
    require_drawing(file)

    draw(RESULT, file)

    assert file.stat().st_size > 5_000


def test_a_picture_names_what_it_shows_in_words_and_each_kind_once(tmp_path: Path) -> None:
    file = tmp_path / "picture.svg"

    draw(RESULT, file)

    text = file.read_text("utf-8")
    assert text.count("<!-- Spark's Kafka sink, no state -->") == 2  # a bar and a line
    assert "stateless 0" not in text


def test_every_comparison_has_words() -> None:
    kinds = {name.replace("-", "_") for name in possible_comparisons()}  # as the runs have it

    assert kinds < set(WORDS)


def test_another_ending_is_refused_before_the_measuring(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--picture"):
        require_drawing(tmp_path / "picture.gif")
