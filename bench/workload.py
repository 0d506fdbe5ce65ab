"""What the benchmarks send: fixed by a seed, so that two runs send the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkback.protocol.properties import CHECK_IMMUNITY_TIME_IN_SECONDS, TAGS, Headers
from checkback.protocol.records import Op, half_headers

GROUP: Final = "bench"
ROLLED_BACK_OF: Final = 10
"""One transaction of so many is rolled back."""
COMMIT: Final = 8
ROLLBACK: Final = 12
POOL_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Workload:
    """Transactions whose every byte follows from the seed and from where the half stands.

    Args:
        seed: chooses bodies, and which transactions are rolled back.
        body_bytes: size of a message; random bytes, which no compression makes smaller.
        real_topic: where committed ones go.
        immunity_s: seconds in which a half is not asked back, None for the settings' own.
    """

    seed: int
    body_bytes: int
    real_topic: str
    immunity_s: int | None = None

    def transaction_id(self, partition: int, offset: int) -> str:
        """Return the id of a transaction: 32 characters, as the client's are."""
        return f"{self.seed:08x}{partition:08x}{offset:016x}"

    def half_headers(self, partition: int, offset: int) -> Headers:
        """Return a half's six headers."""
        immunity = {CHECK_IMMUNITY_TIME_IN_SECONDS: str(self.immunity_s)} if self.immunity_s else {}
        return half_headers(
            producer_group=GROUP,
            transaction_id=self.transaction_id(partition, offset),
            real_topic=self.real_topic,
            properties={**immunity, TAGS: "bench"},
        )

    def op(self, partition: int, offset: int) -> Op:
        """Return what becomes of a transaction."""
        state = ROLLBACK if rolls_back(self.seed, offset) else COMMIT
        return Op(partition, offset, GROUP, self.transaction_id(partition, offset), state)

    def bodies(self, partition: int) -> Iterator[bytes]:
        """Yield one body after the other, without end."""
        pool = np.random.default_rng((self.seed, partition)).bytes(POOL_BYTES + self.body_bytes)
        step = 4_099 if self.body_bytes < POOL_BYTES // 4 else self.body_bytes
        at = 0
        while True:
            yield pool[at : at + self.body_bytes]
            at = (at + step) % POOL_BYTES


def rolls_back(seed: int, offset: int) -> bool:
    """Tell whether the transaction of a half at that offset is rolled back."""
    return (offset + seed) % ROLLED_BACK_OF == 0


def commits_among(seed: int, first: int, count: int) -> int:
    """Return how many of so many halves, from that offset on, are committed."""
    before = _multiples_below(first + seed)
    return count - (_multiples_below(first + count + seed) - before)


def _multiples_below(number: int) -> int:
    return -(-number // ROLLED_BACK_OF)
