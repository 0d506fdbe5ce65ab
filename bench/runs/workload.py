"""The benchmarks' messages, determined by a seed, so that two runs send the same bytes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkback.protocol.properties import CHECK_IMMUNITY_TIME_IN_SECONDS, TAGS, Headers
from checkback.protocol.records import Op, half_headers
from checkback.security.record_signer import RecordSigner

GROUP: Final = "bench"
ROLLED_BACK_OF: Final = 10
"""One of this many transactions is rolled back."""
COMMIT: Final = 8
ROLLBACK: Final = 12
POOL_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Workload:
    """Transactions whose every byte follows from the seed and the half's position."""

    seed: int
    body_bytes: int
    real_topic: str
    due_at_s: float | None = None  # time of the check requests; None: as the settings say
    has_rollbacks: bool = True
    accounts: int = 0  # sign the records by turns; 0 for no signatures

    def transaction_id(self, partition: int, offset: int) -> str:
        """Return a transaction id: 32 characters, like the client's."""
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
        """Return the op of a transaction."""
        state = COMMIT if self.commits(offset) else ROLLBACK
        return Op(partition, offset, GROUP, self.transaction_id(partition, offset), state)

    def signers(self) -> list[RecordSigner]:
        """Return the signer of each account; none without signatures."""
        return [
            RecordSigner(f"bench-account-{number}", _secret(number), lambda: time.time() * 1_000)
            for number in range(self.accounts)
        ]

    def access_rules(self) -> str:
        """Return the rules of access control (plain_acl.yml) that allow the records."""
        lines = ["accounts:"]
        for number in range(self.accounts):
            lines += [
                f"- accessKey: bench-account-{number}",
                f"  secretKey: {_secret(number)}",
                f"  topicPerms: [{self.real_topic}=PUB]",
                f"  groupPerms: [{GROUP}=PUB|SUB]",
            ]
        return "\n".join(lines) + "\n"

    def commits(self, offset: int) -> bool:
        """Return whether the transaction of the half at this offset is committed."""
        return not (self.has_rollbacks and (offset + self.seed) % ROLLED_BACK_OF == 0)

    def bodies(self, partition: int) -> Iterator[bytes]:
        """Yield bodies without end."""
        pool = np.random.default_rng((self.seed, partition)).bytes(POOL_BYTES + self.body_bytes)
        step = 4_099 if self.body_bytes < POOL_BYTES // 4 else self.body_bytes
        at = 0
        while True:
            yield pool[at : at + self.body_bytes]
            at = (at + step) % POOL_BYTES


def _secret(number: int) -> str:
    return f"secret-of-bench-account-{number}"


def commits_among(seed: int, count: int) -> int:
    """Return how many of a partition's first halves are committed."""
    rolled_back = len(range(-seed % ROLLED_BACK_OF, count, ROLLED_BACK_OF))
    return count - rolled_back
