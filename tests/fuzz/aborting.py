"""Writes halves that nobody may read: in Kafka transactions that are aborted. They leave gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.fuzz.records import Record
from tests.integration.running import Topics, wait_until

TIMEOUT_S: Final = 60.0


class Aborting:
    """A producer of which nothing is ever committed.

    Args:
        topics: where halves go.
    """

    def __init__(self, topics: Topics) -> None:
        self.topic = topics.names.half
        own = {"transactional.id": f"{topics.prefix}aborting", "linger.ms": 0}
        self._producer = Producer({**topics.connection, **own})
        self._producer.init_transactions(TIMEOUT_S)
        self._reader = Consumer({**topics.connection, "group.id": f"{topics.prefix}aborting"})

    def abort(self, halves: Sequence[Record], partition: int) -> int:
        """Write halves for one partition and abort them; return how many offsets that takes."""
        before = self._end(partition)
        self._producer.begin_transaction()
        for half in halves:
            headers: Any = [(name.decode(), value) for name, value in half.headers]
            self._producer.produce(self.topic, half.value, half.key, partition, headers=headers)
        assert self._producer.flush(TIMEOUT_S) == 0
        self._producer.abort_transaction(TIMEOUT_S)
        # The brokers write the end of a transaction after they have said that it is over.
        wait_until(lambda: self._end(partition) > before + len(halves), what="the end of an abort")
        return self._end(partition) - before

    def close(self) -> None:
        self._reader.close()

    def _end(self, partition: int) -> int:
        place = TopicPartition(self.topic, partition)
        end: int = self._reader.get_watermark_offsets(place, TIMEOUT_S)[1]
        return end
