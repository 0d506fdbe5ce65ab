"""Fixed seeds; `python -m tests.simulation SEED --runs N` looks further."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from typing import Any

import pytest
from tests.property.model import Act, Record
from tests.property.paged import PagedEngine
from tests.simulation.run import Run

from checkback.state import Counter

DIRECT = {Counter.DELIVERED, Counter.FENCES, Counter.DELIVERED_REFUSED}
"""No producer of the simulation delivers directly; tests/model has all that can come of that."""


@pytest.mark.parametrize("seed", range(40))
def test_what_must_hold_holds(seed: int) -> None:
    Run(seed).go()


def test_one_seed_makes_one_run() -> None:
    first, second = Run(5).go(), Run(5).go()
    assert first.tally == second.tally
    assert first.verdict == second.verdict


def test_the_runs_meet_whatever_can_happen() -> None:
    total = sum((Run(seed, batches=60).go().tally for seed in range(12)), start=Run(12).go().tally)
    assert set(total) == set(Counter) - {Counter.REPEATED_HALVES} - DIRECT


class LossyEngine(PagedEngine):
    """A pipeline that writes the outcome of every ninth batch and loses its state."""

    batches = 0

    def batch(self, *given: Any, **more: Any) -> tuple[set[Act], Tally[Counter]]:
        before = dict(self.rows)
        decided = super().batch(*given, **more)
        self.batches += 1
        if self.batches % 9 == 0:
            self.rows = before
        return decided


class DeafEngine(PagedEngine):
    """A pipeline that misses every third record."""

    def batch(
        self, records: Iterable[Record], *given: Any, **more: Any
    ) -> tuple[set[Act], Tally[Counter]]:
        heard = [record for record in records if record.source % 3]
        return super().batch(heard, *given, **more)


def broken(run: Run, engine: type[PagedEngine]) -> Run:
    run.engine = engine(run.engine.page_size)
    return run


@pytest.mark.parametrize("engine", [LossyEngine, DeafEngine])
def test_a_pipeline_that_breaks_the_rules_is_found_out(engine: type[PagedEngine]) -> None:
    with pytest.raises(AssertionError) as failure:
        broken(Run(5), engine).go()
    assert failure.value.__notes__ == ["repeat: python -m tests.simulation 5 --batches 150"]
