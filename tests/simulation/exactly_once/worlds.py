"""What kind of life a run is: drawn from its seed, or one that has a name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.deciding import rules
from tests.simulation.exactly_once.fates import Chances

from checkback.state import Rules

DAY_MS = 86_400_000
RULES = rules(
    transaction_timeout_ms=1_000,
    check_interval_ms=2_000,
    check_max=2,
    half_retention_ms=30 * 86_400_000,
    verdict_retention_ms=600_000,
)
EXPIRING_RULES = replace(RULES, half_retention_ms=DAY_MS)


@dataclass(frozen=True)
class World:
    """What kind of life it is.

    Args:
        state_partitions: of the job.
        two_drivers: a second driver may start while one runs.
        touched_markers: an operator resets or deletes the markers, or they expire.
        overwrites: ``offsets/N`` is put where nobody saw one, not created or refused.
        days_pass: now and then a day passes or eight, longer than halves are kept.
        loses_records: brokers lose the end of a topic.
    """

    state_partitions: int
    two_drivers: bool
    touched_markers: bool
    overwrites: bool
    days_pass: bool = False
    loses_records: bool = False

    @property
    def rules(self) -> Rules:
        """What is in force."""
        return EXPIRING_RULES if self.days_pass else RULES


ONE_DRIVER = World(2, two_drivers=False, touched_markers=False, overwrites=False)
TWO_DRIVERS = replace(ONE_DRIVER, two_drivers=True)
LOSING = replace(ONE_DRIVER, loses_records=True)
TOUCHED = replace(ONE_DRIVER, touched_markers=True)
STEADY = Chances(crash=0.004, sleep=0.002, fault=0.005)
"""A pipeline that gets on with it."""
KINDS: dict[str, tuple[World, Chances | None]] = {
    "one-driver": (ONE_DRIVER, None),
    "two-drivers": (TWO_DRIVERS, None),
    "touched": (TOUCHED, None),
    "expiring": (replace(ONE_DRIVER, state_partitions=1, days_pass=True), STEADY),
    "losing": (LOSING, None),
}
"""Worlds that have a name, by which a run of them is repeated."""


def kind_of(world: World | None, chances: Chances | None) -> str:
    """Return the name of such a world; empty for one that the seed has drawn, or has no name."""
    return next((name for name, kind in KINDS.items() if kind == (world, chances)), "")


def world_of(random: Random) -> World:
    """Draw a world.

    Where a plan can be overwritten two drivers at once may run the same batch with different
    contents, before the older one learns that it is over: no marker helps against that. Spark
    itself wants a file system that creates a file or refuses; a local disk and HDFS do.
    """
    overwrites = random.random() < 0.3
    two_drivers = random.random() < 0.5
    return World(
        state_partitions=random.choice((1, 2, 2, 3)),
        two_drivers=two_drivers and not overwrites,
        touched_markers=random.random() < 0.25,
        overwrites=overwrites,
    )
