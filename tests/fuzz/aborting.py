"""Writes halves in Kafka transactions. Those that are aborted nobody may read; they leave gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.fuzz.records import Record
from tests.integration.running import Topics, wait_until

TIMEOUT_S: Final = 60.0


class Aborting:
    """A producer of halves whose transactions are mostly aborted.

    Args:
        topics: where halves go.
    """

    def __init__(self, topics: Topics) -> None:
        self.topic = topics.names.half
        own = {"transactional.id": f"{topics.prefix}aborting", "linger.ms": 0}
        self._producer = Producer({**topics.connection, **own})
        self._producer.init_transactions(TIMEOUT_S)
        self._reader = Consumer({**topics.connection, "group.id": f"{topics.prefix}aborting"})

    def write(self, halves: Sequence[Record], partition: int, *, is_kept: bool) -> int:
        """Write halves for one partition, and commit or abort them.

        Returns:
            How many offsets that takes: the last one is that of the end of the transaction.
        """
        before = self._end(partition)
        self._producer.begin_transaction()
        for half in halves:
            headers: Any = [(name.decode(), value) for name, value in half.headers]
            self._producer.produce(self.topic, half.value, half.key, partition, headers=headers)
        assert self._producer.flush(TIMEOUT_S) == 0
        end = self._producer.commit_transaction if is_kept else self._producer.abort_transaction
        end(TIMEOUT_S)
        # The brokers write the end of a transaction after they have said that it is over.
        wait_until(lambda: self._end(partition) > before + len(halves), what="the end of it")
        return self._end(partition) - before

    def close(self) -> None:
        self._reader.close()

    def _end(self, partition: int) -> int:
        place = TopicPartition(self.topic, partition)
        end: int = self._reader.get_watermark_offsets(place, TIMEOUT_S)[1]
        return end
