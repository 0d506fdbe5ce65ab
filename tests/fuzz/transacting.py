"""Writes halves and ops in Kafka transactions, which commit or are aborted.

Nobody may read what is aborted; it leaves gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.fuzz.records import Record
from tests.fuzz.writing import Stored
from tests.integration.running import Topics, wait_until

TIMEOUT_S: Final = 60.0


class Transacting:
    """A producer that writes in transactions of its own.

    Args:
        topics: where halves and ops go.
        stored: told of each op that is committed, and of its offset.
    """

    def __init__(self, topics: Topics, stored: Stored) -> None:
        self._names = topics.names
        self._stored = stored
        own = {"transactional.id": f"{topics.prefix}fuzz", "linger.ms": 0}
        self._producer = Producer({**topics.connection, **own})
        self._producer.init_transactions(TIMEOUT_S)
        self._reader = Consumer({**topics.connection, "group.id": f"{topics.prefix}fuzz"})

    def write_halves(self, halves: Sequence[Record], partition: int, *, is_kept: bool) -> int:
        """Write halves for one partition, and commit or abort them.

        Returns:
            How many offsets that takes: the last one is that of the end of the transaction.
        """
        before = self._end(partition)
        for half in halves:
            half.partition = partition
        self._write(self._names.half, halves, is_kept=is_kept)
        # The brokers write the end of a transaction after they have said that it is over.
        wait_until(lambda: self._end(partition) > before + len(halves), what="the end of it")
        return self._end(partition) - before

    def write_ops(self, ops: Iterable[Record], *, is_kept: bool) -> None:
        """Write ops that everybody sees, or nobody may see."""
        for op, offset in self._write(self._names.op, ops, is_kept=is_kept):
            if is_kept:
                self._stored(op, offset)

    def close(self) -> None:
        self._reader.close()

    def _write(
        self, topic: str, records: Iterable[Record], *, is_kept: bool
    ) -> list[tuple[Record, int]]:
        """Return what was written, with its offsets."""
        written: list[tuple[Record, int]] = []
        self._producer.begin_transaction()
        for one in records:
            headers: Any = [(name.decode(), value) for name, value in one.headers]

            def told(error: Any, message: Any, one: Record = one) -> None:
                assert error is None, f"{one.kind}: {error.str()}"
                written.append((one, message.offset()))

            to = one.partition
            self._producer.produce(topic, one.value, one.key, to, headers=headers, on_delivery=told)
        assert self._producer.flush(TIMEOUT_S) == 0
        end = self._producer.commit_transaction if is_kept else self._producer.abort_transaction
        end(TIMEOUT_S)
        return written

    def _end(self, partition: int) -> int:
        place = TopicPartition(self._names.half, partition)
        end: int = self._reader.get_watermark_offsets(place, TIMEOUT_S)[1]
        return end
