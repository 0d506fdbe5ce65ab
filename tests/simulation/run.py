"""One simulated run: a world, the pages, an audit, all from one seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.deciding import rules
from tests.property.paged import PagedEngine
from tests.simulation.audit import Audit
from tests.simulation.world import World

from checkback.state import Counter

BATCHES = 150
CALM_BATCHES_MAX = 3_000


class Run:
    """The pipeline in a simulated world.

    Args:
        seed: of everything that is left to chance.
        batches: how many, before the world calms down.
    """

    def __init__(self, seed: int, batches: int = BATCHES) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.batches = batches
        pace_ms = self.random.choice((10, 1_000))
        self.world = World(self.random, pace_ms)
        self.engine = PagedEngine(self.random.choice((1, 7, 64, 1024)))
        self.rules = rules(
            transaction_timeout_ms=self.random.choice((0, 2, 6)) * pace_ms,
            check_interval_ms=self.random.choice((1, 5, 10)) * pace_ms,
            check_max=self.random.choice((1, 2, 5)),
            half_retention_ms=self.random.choice((40, 10_000)) * pace_ms,
            verdict_retention_ms=self.random.choice((20, 400)) * pace_ms,
        )
        self.audit = Audit(self.world)

    def go(self) -> Audit:
        """Run to the end and return the audit.

        Raises:
            AssertionError: something does not hold; its note says how to repeat the run.
        """
        try:
            self._go()
        except AssertionError as error:
            error.add_note(f"repeat: {repeating_command(self.seed, self.batches)}")
            raise
        return self.audit

    def _go(self) -> None:
        for _ in range(self.batches):
            self.world.live()
            self._perhaps_change_settings()
            self._batch(self.random.choice((2**31, 2**31, 0, 3)))
        self.world.calm_down()
        self.rules = replace(self.rules, check_enabled=True, reject_transactions=False)
        for _ in range(CALM_BATCHES_MAX):
            if self._is_over():
                break
            self.world.live()
            self._batch(2**31)
        assert self._is_over(), "the pages never come to rest"
        self.audit.at_the_end()

    def _is_over(self) -> bool:
        topics = (self.world.half_topic, self.world.op_topic)
        unread = any(topic.read < len(topic.records) for topic in topics)
        return not (unread or self.world.on_their_way or self.engine.rows)

    def _perhaps_change_settings(self) -> None:
        if self.random.random() < 0.03:
            enabled = self.random.random() < 0.5
            self.rules = replace(self.rules, check_enabled=enabled)
        if self.random.random() < 0.03:
            reject = self.random.random() < 0.3
            self.rules = replace(self.rules, reject_transactions=reject)

    def _batch(self, budget: int) -> None:
        """Run one batch, which may fail and be replayed before it is committed."""
        topics = (self.world.half_topic, self.world.op_topic)
        read = [topic.next(self.random.choice((0, 1, 5, 100))) for topic in topics]
        now, before = self.world.driver_ms, dict(self.engine.rows)
        records = [record for part in read for record in part]
        decided = self.engine.batch(records, now, self.rules, budget)
        after = dict(self.engine.rows)
        while self.random.random() < 0.1:
            self.random.shuffle(records)
            self.engine.rows = dict(before)
            assert self.engine.batch(records, now, self.rules, budget) == decided
            assert self.engine.rows == after
            self.world.broker_ms += self.world.pace_ms
        for topic, part in zip(topics, read, strict=True):
            topic.read += len(part)
        acts, tally = decided
        self.audit.batch(records, sorted(acts), tally, now, self.rules)


def repeating_command(seed: int, batches: int) -> str:
    """Return the command that runs exactly this again."""
    return f"python -m tests.simulation {seed} --batches {batches}"


def summary(audit: Audit) -> str:
    """Return a run in one line."""
    counters = {one.name.lower(): audit.tally[one] for one in Counter if audit.tally[one]}
    return " ".join(f"{name}={number}" for name, number in counters.items())
