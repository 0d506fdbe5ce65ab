"""What the benchmarks send: fixed by a seed, so that two runs send the same bytes."""

from __future__ import annotations

import math
import time
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
        due_at_s: when halves are asked back, seconds since 1970; None: as settings say.
        has_rollbacks: whether some are rolled back; else all are committed.
    """

    seed: int
    body_bytes: int
    real_topic: str
    due_at_s: float | None = None
    has_rollbacks: bool = True

    def transaction_id(self, partition: int, offset: int) -> str:
        """Return the id of a transaction: 32 characters, as the client's are."""
        return f"{self.seed:08x}{partition:08x}{offset:016x}"

    def half_headers(self, partition: int, offset: int) -> Headers:
        """Return a half's six headers."""
        immunity = {}
        if self.due_at_s is not None:
            seconds = max(1, math.ceil(self.due_at_s - time.time()))
            immunity = {CHECK_IMMUNITY_TIME_IN_SECONDS: str(seconds)}
        return half_headers(
            producer_group=GROUP,
            transaction_id=self.transaction_id(partition, offset),
            real_topic=self.real_topic,
            properties={**immunity, TAGS: "bench"},
        )

    def op(self, partition: int, offset: int) -> Op:
        """Return what becomes of a transaction."""
        state = COMMIT if self.commits(offset) else ROLLBACK
        return Op(partition, offset, GROUP, self.transaction_id(partition, offset), state)

    def commits(self, offset: int) -> bool:
        """Tell whether the transaction of a half at that offset is committed."""
        return not (self.has_rollbacks and (offset + self.seed) % ROLLED_BACK_OF == 0)

    def bodies(self, partition: int) -> Iterator[bytes]:
        """Yield one body after the other, without end."""
        pool = np.random.default_rng((self.seed, partition)).bytes(POOL_BYTES + self.body_bytes)
        step = 4_099 if self.body_bytes < POOL_BYTES // 4 else self.body_bytes
        at = 0
        while True:
            yield pool[at : at + self.body_bytes]
            at = (at + step) % POOL_BYTES


def commits_among(seed: int, count: int) -> int:
    """Return how many of the first so many halves of a partition are committed."""
    rolled_back = len(range(-seed % ROLLED_BACK_OF, count, ROLLED_BACK_OF))
    return count - rolled_back
