"""The cases: which process dies at which point; chosen by hand or drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

STATE_PARTITIONS: Final = 2

ANYONE: Final = ("sink", "worker", "machine", "driver", "jvm")
DRIVER: Final = ("machine", "driver", "jvm")
FENCING: Final = "fencing: "
"""Prefix of the points of a start, when the driver takes over the checkpoint."""
POINTS: Final[dict[str, tuple[str, ...]]] = {
    "planned": DRIVER,
    "decided": ("worker", "machine"),
    "state upload": ("machine", "jvm"),
    "input read": ("worker", "machine"),
    "initialised": ANYONE,
    "marker read": ANYONE,
    "begun": ANYONE,
    "mid-produce": ANYONE,
    "flushed": ANYONE,
    "before commit": ANYONE,
    "some committed": ANYONE,
    "committed": ANYONE,
    "all committed": DRIVER,
    "moment": ANYONE,
    **{
        f"{FENCING}{point}": ("machine",) for point in ("initialised", "before commit", "committed")
    },
}
"""Which processes can die at which point; docs/guarantees.md explains each point."""
BROKER_POINTS: Final = ("initialised", "begun", "mid-produce", "flushed", "before commit")
NEEDS_NEW_PRODUCER: Final = ("initialised", "marker read")
ENDS_DRIVER: Final = frozenset({"machine", "driver", "jvm"})
"""After the death of these the run starts the pipeline again. Spark itself repeats a task."""
RELAY: Final = "relay: "
"""Prefix of the points of a relay; the state partition of such a case is the relay's number."""
RELAY_POINTS: Final = (
    "initialised", "joined", "position fetched", "begun", "mid-produce", "flushed",
    "before commit", "mid-commit", "committed",
)  # fmt: skip
NEEDS_NEW_RELAY: Final = (f"{RELAY}initialised", f"{RELAY}joined", f"{RELAY}position fetched")
RELAYS: Final = 2
COSTS: Final = {"sink": 30, "worker": 30, "machine": 5, "driver": 3, "jvm": 2}
"""How often each victim is drawn: a start costs ten seconds, a task's second try one."""


@dataclass(frozen=True, slots=True)
class Case:
    """One crash.

    Args:
        name: a name that no other case of the run has.
        point: the point at which it happens.
        victims: the processes that die, in this order.
        state_partition: the state partition of the writer; None for a point in the driver.
        records: for mid-produce, the number of records before the crash.
        batches: number of undisturbed batches before the crash.
        after_ms: for a moment, the time after Spark planned the batch; in mid-commit, after the
            relay began to commit.
    """

    name: str
    point: str
    victims: tuple[str, ...]
    state_partition: int | None = None
    records: int = 1
    batches: int = 0
    after_ms: int = 0

    @property
    def ends_driver(self) -> bool:
        return bool(ENDS_DRIVER & set(self.victims))

    def armed(self, last_planned: int | None) -> dict[str, Any]:
        """Return the case in the form that the processes read."""
        planned = -1 if last_planned is None else last_planned
        # A new sink initialises its producer in its first batch, and never again.
        undisturbed = 0 if self.point in NEEDS_NEW_PRODUCER else self.batches
        return {**asdict(self), "from_batch": planned + undisturbed}

    def __str__(self) -> str:
        where = (
            "" if self.state_partition is None else f" of state partition {self.state_partition}"
        )
        return f"{self.name}: {' and '.join(self.victims)} at {self.point}{where}"


def random_cases(seed: int) -> Iterator[Case]:
    """Yield cases without end; the same seed gives the same cases."""
    chance = random.Random(seed)
    for number in range(10**9):
        yield _draw(chance, f"{seed}-{number:03}")


def random_relay_cases(seed: int) -> Iterator[Case]:
    """Yield cases without end for a run with relays: two of three are crashes of a relay."""
    chance, others = random.Random(seed), random_cases(seed)
    for other in others:
        if chance.random() < 1 / 3:
            yield other
            continue
        weights = {("relay",): 10, ("paused relay",): 3, ("broker",): 1, ("machine",): 1}
        yield Case(
            f"{other.name}-relay",
            RELAY + chance.choice(RELAY_POINTS),
            chance.choices(list(weights), list(weights.values()))[0],
            chance.randrange(RELAYS),
            chance.randint(1, 8),
            after_ms=chance.choice((0, 1, 2, 5)),
        )


def _draw(chance: random.Random, name: str) -> Case:
    if chance.random() < 0.04:
        point = chance.choice(BROKER_POINTS)
        victims = chance.choice((("broker",), ("broker", "sink"), ("broker", "worker")))
    else:
        victim = chance.choices(list(COSTS), list(COSTS.values()))[0]
        point = chance.choice([one for one, who in POINTS.items() if victim in who])
        victims = (victim,)
    of_driver = point in ("planned", "all committed")
    return Case(
        name,
        point,
        victims,
        None if of_driver else chance.randrange(STATE_PARTITIONS),
        chance.randint(1, 8),
        chance.randint(0, 2),
        chance.choice((0, 5, 20, 50, 100, 200, 300, 400, 600)),
    )
