"""What is certain about the records of one partition that a Kafka producer has in hand. Pure.

An idempotent producer has at most one batch of a partition on its way, and repeats a failed one
before it sends the next. So what is known of the batch on its way is known of the partition.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from checkback.client.results import SendStatus
from checkback.client.send_errors import (
    ELSEWHERE_CODES,
    STATUS_BY_CODE,
    SUCCESS_CODES,
    is_certain_rejection,
)


@dataclass(slots=True)
class _Partition:
    batch: bytes = b""
    batch_in_doubt: bool = False
    on_its_way: bool = False
    doubts: int = 0
    rejections: int = 0
    status: SendStatus | None = None
    barred: bool = False
    waiting: set[Callable[[], None]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Mark:
    """What had happened on a partition when a record was handed over."""

    doubts: int
    rejections: int


class PartitionWatch:
    """Follows the batches of each partition as they go to the broker and come back.

    A partition that rejects a batch which was never in doubt is barred: nothing passes to it any
    more, so whatever the producer still holds for it is certainly not stored and may go elsewhere.
    Without that a half that was tried again on another partition could be stored twice, and a
    check would commit the orphan (RocketMQ #9909). Threads may share it.
    """

    def __init__(self) -> None:
        self._partitions: dict[int, _Partition] = defaultdict(_Partition)
        self._lock = threading.Lock()

    def may_pass(self, partition: int, batch: bytes) -> bool:
        """Note that a batch is about to go on the wire, and tell whether it may.

        Args:
            partition: where to.
            batch: its identity: producer id, epoch and sequence.
        """
        with self._lock:
            seen = self._partitions[partition]
            if seen.barred:
                return False
            if seen.batch != batch:
                seen.batch, seen.batch_in_doubt, seen.status = batch, False, None
            seen.on_its_way = True
            return True

    def not_sent(self, partition: int) -> None:
        """Note that the batch did not get on the wire after all."""
        with self._lock:
            self._partitions[partition].on_its_way = False

    def lost(self, partition: int) -> None:
        """Note that no answer will come: nobody knows whether the batch was stored."""
        with self._lock:
            self._doubt(self._partitions[partition])

    def answered(self, partition: int, code: int) -> bool:
        """Note the broker's answer by its error code; tell whether it bars the partition now."""
        with self._lock:
            seen = self._partitions[partition]
            if code in SUCCESS_CODES:
                seen.on_its_way = False
                return False
            if not is_certain_rejection(code):
                seen.status = STATUS_BY_CODE.get(code)
                self._doubt(seen)
                return False
            seen.on_its_way = False
            seen.rejections += 1
            if code not in ELSEWHERE_CODES or seen.batch_in_doubt:
                return False
            seen.barred = True
            waiting, seen.waiting = seen.waiting, set()
        for wake in waiting:
            wake()
        return True

    def begin(self, partition: int, wake: Callable[[], None]) -> Mark:
        """Begin to follow a record that is handed to the producer next.

        Args:
            partition: where to.
            wake: called once, from any thread, when the partition is barred.

        Returns:
            What ``in_doubt`` and ``rejected`` compare with later.
        """
        with self._lock:
            seen = self._partitions[partition]
            seen.waiting.add(wake)
            return Mark(seen.doubts, seen.rejections)

    def end(self, partition: int, wake: Callable[[], None]) -> None:
        """Follow that record no longer."""
        with self._lock:
            self._partitions[partition].waiting.discard(wake)

    def barred(self, partition: int) -> bool:
        """Tell whether nothing passes to the partition any more."""
        with self._lock:
            return self._partitions[partition].barred

    def in_doubt(self, partition: int, begun: Mark) -> bool:
        """Tell whether a record that is followed since ``begun`` may have been stored.

        May say yes of a record that was not, never no of one that was.
        """
        with self._lock:
            seen = self._partitions[partition]
            return seen.on_its_way or seen.doubts != begun.doubts

    def withdraw(self, partition: int, begun: Mark) -> bool:
        """Bar a partition so that a record followed since ``begun`` never passes.

        Returns:
            True: it is certainly not stored. False: it may have been, and nothing was barred.
        """
        with self._lock:
            seen = self._partitions[partition]
            if seen.on_its_way or seen.doubts != begun.doubts:
                return False
            seen.barred = True
            return True

    def rejected(self, partition: int, begun: Mark) -> bool:
        """Tell whether the broker rejected anything on the partition since ``begun``."""
        with self._lock:
            return self._partitions[partition].rejections != begun.rejections

    def status(self, partition: int) -> SendStatus | None:
        """Return how the leader said that it has the batch, but not safely; None if it did not."""
        with self._lock:
            return self._partitions[partition].status

    @staticmethod
    def _doubt(seen: _Partition) -> None:
        seen.on_its_way = False
        seen.batch_in_doubt = True
        seen.doubts += 1
